"""flashinfer-python and the kernels built for it: cubin and jit-cache must have its version.

flashinfer-python never moves: vLLM pins it. What moves is the package that stayed behind or ran
ahead; where its wheel comes from is decided by what can be resolved. From 0.7 flashinfer only
warns: a warning is no failure, so no rule sees it.
"""

import re
from collections.abc import Iterator

from packaging.version import Version

from tasks.diagnosis import strict
from tasks.diagnosis.rules.acts import Act, FetchKernels, Install, Uninstall
from tasks.diagnosis.rules.model import Captured, Remedy, Rule, Safety, commands_of, says
from tasks.diagnosis.symptoms import Facts, Symptoms
from tasks.packages.families import CUBIN, FLASHINFER, FLASHINFER_INDEX, JIT_CACHE

_LAST_CUBIN_ELSEWHERE = Version("0.6.13")
_DOWNLOADS_FROM = Version("0.33")
_NAME = "flashinfer-cubin-skew"
_STAYS = f"{FLASHINFER} stays, since vLLM asks for exactly this one."
_CUDA = re.compile(r"cu\d{2,4}")


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
    if package == CUBIN:
        return next(_cubin(facts, wanted, undo))
    return next(_jit_cache(facts, _of_cuda(wanted, there), undo))


def _asks(captured: Captured) -> str | None:
    """Return the package that an index has to offer, exactly."""
    there, wanted = strict.version(captured["there"]), strict.version(captured["wanted"])
    if there is None or wanted is None:
        return None
    if captured["package"] == CUBIN:
        return f"{CUBIN}=={wanted.public}"
    return f"{JIT_CACHE}=={_of_cuda(wanted, there)}"


def own_index(package: str) -> str:
    """Return FlashInfer's own index of a package: of what is built for a CUDA, that CUDA's."""
    _, _, cuda = package.partition("+")
    return f"{FLASHINFER_INDEX}/{cuda}" if cuda else FLASHINFER_INDEX


def _of_cuda(wanted: Version, there: Version) -> str:
    """Return the wanted version of jit-cache, for the CUDA that it is there for."""
    cuda = there.local or ""
    return f"{wanted.public}+{cuda}" if _CUDA.fullmatch(cuda) else wanted.public


def _cubin(facts: Facts, wanted: Version, undo: str) -> Iterator[Remedy]:
    """Yield what can be done, the best first."""
    package = f"{CUBIN}=={wanted.public}"
    if facts.can("configured", unknown=wanted <= _LAST_CUBIN_ELSEWHERE):
        yield _install(facts, package, (), undo, f"Install {package}; {_STAYS}")
    if facts.can("flashinfer", unknown=True):
        where = f"Install {package} from FlashInfer's own index; {_STAYS}"
        yield _install(facts, package, (own_index(package),), undo, where)
    vllm = strict.version(facts.version("vllm") or "")
    fetches = facts.can("download", unknown=False) and facts.runs_as_owner is not False
    if fetches and vllm and vllm >= _DOWNLOADS_FROM:
        # The package that is out of step stops every import of flashinfer, vLLM's own as well.
        acts = (Uninstall(packages=(CUBIN,)), FetchKernels())
        instead = f"Let vLLM fetch the kernels instead of {CUBIN}: `vllm download-kernels`; "
        yield _remedy_of(facts, "auto", instead + _STAYS, acts, undo)
    yield from _removed(facts, CUBIN, undo)
    yield _remedy_of(
        facts,
        "approval",
        f"No index offers {package}. Find its wheel, or remove {CUBIN}; without nvcc and ninja "
        "vLLM then runs without FlashInfer.",
        (),
        undo,
    )


def _jit_cache(facts: Facts, wanted: str, undo: str) -> Iterator[Remedy]:
    """Yield the same of the kernels of one CUDA version, which has an index of its own."""
    package = f"{JIT_CACHE}=={wanted}"
    _, _, cuda = wanted.partition("+")
    if facts.can("configured", unknown=not cuda):
        yield _install(facts, package, (), undo, f"Install {package}; {_STAYS}")
    if cuda and facts.can("flashinfer", unknown=True):
        where = f"Install {package} from FlashInfer's own index for this CUDA; {_STAYS}"
        yield _install(facts, package, (own_index(package),), undo, where)
    yield from _removed(facts, JIT_CACHE, undo)
    nowhere = f"No index offers {package}: find its wheel."
    yield _remedy_of(facts, "approval", nowhere, (), undo)


def _removed(facts: Facts, package: str, undo: str) -> Iterator[Remedy]:
    """Yield the removal, only where what is missing then can be built."""
    if facts.has_nvcc and facts.has_ninja:
        built = f"Remove {package}: nvcc and ninja are both there, kernels are built when used."
        yield _remedy_of(facts, "auto", built, (Uninstall(packages=(package,)),), undo)


def _install(
    facts: Facts, package: str, indexes: tuple[str, ...], undo: str, sentence: str
) -> Remedy:
    act = Install(packages=(package,), indexes=indexes)
    return _remedy_of(facts, "auto", sentence, (act,), undo)


def _remedy_of(
    facts: Facts, safety: Safety, sentence: str, acts: tuple[Act, ...], undo: str
) -> Remedy:
    return Remedy(
        rule=_NAME,
        safety=safety,
        acts=acts,
        commands=commands_of(acts, facts),
        undo=(undo,),
        check=f"What is installed beside {FLASHINFER} has its version.",
        sentence=sentence,
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
        asks=_asks,
        undo="Install the version that was there.",
        still_wrong=_skewed,
        advice="Install the package at the version of flashinfer-python, from an index that has "
        "it. Newer ones are only on FlashInfer's own index.",
    ),
)
