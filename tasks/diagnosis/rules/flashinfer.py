"""flashinfer-python and the kernels built for it: cubin and jit-cache must have its version.

flashinfer-python never moves: vLLM pins it. What moves is the package that stayed behind or ran
ahead; where its wheel comes from is decided by what can be resolved. From 0.7 flashinfer only
warns: a warning is no failure, so no rule sees it.
"""

from collections.abc import Iterator

from packaging.version import Version

from tasks.diagnosis import strict
from tasks.diagnosis.rules.model import Captured, Remedy, Rule, says
from tasks.diagnosis.symptoms import Facts, Symptoms
from tasks.packages.families import CUBIN, FLASHINFER, JIT_CACHE

OWN_INDEX = "https://flashinfer.ai/whl"
_LAST_CUBIN_ELSEWHERE = Version("0.6.13")
_DOWNLOADS_FROM = Version("0.33")
_NAME = "flashinfer-cubin-skew"
_MOVES = ", since vLLM asks for exactly this one."


def _guard(symptoms: Symptoms, captured: Captured) -> str | None:
    """Ask the environment whether the journal speaks of it, not of an earlier one."""
    facts = symptoms.facts
    if not facts.are_known:
        return None
    for name, said in ((captured["package"], captured["there"]), (FLASHINFER, captured["wanted"])):
        installed = facts.version(name)
        if installed is None:
            return f"{name} is not installed in this environment"
        if not _same_public(installed, said):
            return f"the journal speaks of {name} {said}, but {installed} is installed"
    if _skewed(facts) is None:
        return "the installed versions go together"
    return None


def _remedy(symptoms: Symptoms, captured: Captured) -> Remedy | None:
    package, facts = captured["package"], symptoms.facts
    there, wanted = strict.version(captured["there"]), strict.version(captured["wanted"])
    if there is None or wanted is None:
        return None
    undo = f"{package}=={there.public if package == CUBIN else there}"
    if package == JIT_CACHE:
        return _jit_cache(facts, wanted, there, undo)
    return next(_cubin(facts, wanted, undo))


def _cubin(facts: Facts, wanted: Version, undo: str) -> Iterator[Remedy]:
    """Yield what can be done, the best first."""
    package = f"{CUBIN}=={wanted.public}"
    stays = f"{FLASHINFER} stays{_MOVES}"
    if facts.can("configured", unknown=wanted <= _LAST_CUBIN_ELSEWHERE):
        yield _install(facts, package, (), undo, f"Install {package}; {stays}")
    if facts.can("flashinfer", unknown=True):
        where = f"Install {package} from FlashInfer's own index; {stays}"
        yield _install(facts, package, (OWN_INDEX,), undo, where)
    vllm = strict.version(facts.version("vllm") or "")
    if facts.can("download", unknown=False) and vllm and vllm >= _DOWNLOADS_FROM:
        says_so = f"Let vLLM fetch the kernels: `vllm download-kernels`; {stays}"
        yield _remedy_of("auto", says_so, commands=((f"{facts.bin}/vllm", "download-kernels"),))
    remove = f"Remove {CUBIN}: "
    argv = (*facts.uv("uninstall"), CUBIN)
    if facts.has_nvcc and facts.has_ninja:
        built = remove + "nvcc and ninja are both there, the kernels are built when first used."
        yield _remedy_of("auto", built, commands=(argv,), undo=(undo,))
    yield _remedy_of(
        "approval",
        f"No index offers {package}. Find its wheel, or remove {CUBIN}; without nvcc and ninja "
        "vLLM then runs without FlashInfer.",
        undo=(undo,),
    )


def _jit_cache(facts: Facts, wanted: Version, there: Version, undo: str) -> Remedy:
    """The kernels of a CUDA version: the same local part, on that CUDA's own index."""
    cuda = there.local if there.local and there.local[:2] == "cu" else None
    local = cuda if cuda and cuda[2:].isdigit() else None
    package = f"{JIT_CACHE}=={wanted.public}" + (f"+{local}" if local else "")
    stays = f"{FLASHINFER} stays{_MOVES}"
    if facts.can("configured", unknown=local is None):
        return _install(facts, package, (), undo, f"Install {package}; {stays}")
    if local and facts.can("flashinfer", unknown=True):
        index = f"{OWN_INDEX}/{local}"
        says_so = f"Install {package} from FlashInfer's own index for this CUDA; {stays}"
        return _install(facts, package, (index,), undo, says_so)
    argv = (*facts.uv("uninstall"), JIT_CACHE)
    if facts.has_nvcc and facts.has_ninja:
        built = f"Remove {JIT_CACHE}: nvcc and ninja are both there, kernels are built when used."
        return _remedy_of("auto", built, commands=(argv,), undo=(undo,))
    return _remedy_of("approval", f"No index offers {package}: find its wheel.", undo=(undo,))


def _install(
    facts: Facts, package: str, indexes: tuple[str, ...], undo: str, sentence: str
) -> Remedy:
    options = tuple(option for index in indexes for option in ("--index", index))
    return Remedy(
        rule=_NAME,
        safety="auto",
        packages=(package,),
        indexes=indexes,
        commands=((*facts.uv("install"), *options, package),),
        undo=(undo,),
        check=f"{package.partition('==')[0]} and {FLASHINFER} have the same version.",
        sentence=sentence,
    )


def _remedy_of(
    safety: str,
    sentence: str,
    commands: tuple[tuple[str, ...], ...] = (),
    undo: tuple[str, ...] = (),
) -> Remedy:
    return Remedy.model_validate(
        {
            "rule": _NAME,
            "safety": safety,
            "commands": commands,
            "undo": undo,
            "check": "flashinfer can be imported.",
            "sentence": sentence,
        }
    )


def _skewed(facts: Facts) -> str | None:
    family = (CUBIN, JIT_CACHE)
    return next((one.sentence for one in facts.skews() if one.package in family), None)


def _same_public(one: str, other: str) -> bool:
    first, second = strict.version(one), strict.version(other)
    if first is None or second is None:
        return one == other
    return first.public == second.public


RULES = (
    Rule(
        name=_NAME,
        kind="version-skew",
        match=says(
            r"(?P<package>flashinfer-(?:cubin|jit-cache)) version \((?P<there>[^()\s]+)\) does not "
            r"match flashinfer version \((?P<wanted>[^()\s]+)\)"
        ),
        guard=_guard,
        explanation="{package} {there} was left behind beside flashinfer-python {wanted}, or ran "
        "ahead of it: nothing in vLLM's requirements moves it, and flashinfer compares the two "
        "when it is imported.",
        safety="auto",
        remedy=_remedy,
        undo="Install the version that was there.",
        still_wrong=_skewed,
        advice="Install {package} at the version of flashinfer-python, from an index that has it. "
        "Newer ones are only on FlashInfer's own index.".replace("{package}", "the package"),
    ),
)
