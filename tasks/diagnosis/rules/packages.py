"""Packages of the environment that do not go together, and installers that refuse."""

import re
from collections.abc import Callable

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tasks.diagnosis import strict
from tasks.diagnosis.rules.acts import Act, Install
from tasks.diagnosis.rules.model import (
    Captured,
    Rule,
    both,
    by,
    either,
    holds,
    says,
    somewhere,
)
from tasks.diagnosis.symptoms import Facts, Symptoms
from tasks.packages.families import marker_environment

_AS_PINNED = "Install the version that vLLM's own metadata asks for; a new resolve of the whole "
_WHOLE = "environment to vLLM's pins brings it back."


def _numpy(_: Symptoms, captured: Captured) -> tuple[Act, ...]:
    ceiling = strict.version(captured["ceiling"])
    if ceiling is None or len(ceiling.release) < 2:
        return ()
    return (Install(packages=(f"numpy<{ceiling.release[0]}.{ceiling.release[1] + 1}",)),)


def _as_vllm_asks(*names: str) -> Callable[[Symptoms, Captured], tuple[Act, ...]]:
    """Read from vLLM's metadata on the host what it asks for; a table of ours would grow old."""

    def acts(symptoms: Symptoms, _: Captured) -> tuple[Act, ...]:
        asked = (_asked_for(symptoms.facts, name) for name in names)
        packages = tuple(one for one in asked if one)
        return (Install(packages=packages),) if packages else ()

    return acts


def _asked_for(facts: Facts, name: str) -> str | None:
    """Return vLLM's requirement where what is installed is not what it asks for."""
    vllm = next((one for one in facts.packages if one.name == "vllm"), None)
    here = marker_environment(python=facts.python, machine=facts.machine)
    for text in vllm.requires if vllm else ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        applies = requirement.marker is None or requirement.marker.evaluate({**here, "extra": ""})
        if canonicalize_name(requirement.name) == name and applies and requirement.specifier:
            installed = strict.version(facts.version(name) or "")
            met = installed and requirement.specifier.contains(installed, prereleases=True)
            return None if met else f"{name}{requirement.specifier}"
    return None


def _not_served_anyway(symptoms: Symptoms, _: Captured) -> str | None:
    return "the service runs all the same" if symptoms.death.kind == "running" else None


RULES = (
    Rule(
        name="numba-numpy",
        kind="version-skew",
        match=says(r"Numba needs NumPy (?P<ceiling>[\d.]+) or less"),
        guard=_not_served_anyway,
        explanation="An install moved numpy past what numba accepts (at most {ceiling}).",
        advice="Install the highest numpy that the installed numba allows.",
        safety="auto",
        acts=_numpy,
        undo="Install the numpy that was there.",
    ),
    Rule(
        name="cutlass-dsl",
        kind="version-skew",
        match=says(
            r"(?:module|package) '(?:cutlass|quack)[\w.]*' has no attribute|"
            r"cannot import name '\w+' from '(?:cutlass|quack)\b"
        ),
        explanation="nvidia-cutlass-dsl is not the version that FlashInfer's kernels were written "
        "for.",
        advice=f"{_AS_PINNED}{_WHOLE}",
        safety="auto",
        acts=_as_vllm_asks("nvidia-cutlass-dsl"),
    ),
    Rule(
        name="torch-abi",
        kind="version-skew",
        match=says(
            r"(?:vllm|flash_attn|torchvision|torchaudio|xformers|flashinfer|\b_C)\S*\.so\S*: "
            r"undefined symbol: (?P<symbol>\w+)|operator torchvision::\w+ does not exist|"
            r"undefined symbol: \w*(?:c10|at|torch)\w+"
        ),
        explanation="torch is not the build that a compiled extension was made against.",
        advice="Install torch and torchvision exactly as vLLM's metadata pins them, together with "
        "vLLM, from the index of its CUDA; a lone move of torch breaks other extensions.",
        safety="auto",
        acts=_as_vllm_asks("torch", "torchvision", "torchaudio"),
    ),
    Rule(
        name="transformers-name-taken",
        kind="version-skew",
        match=says(r"'(?P<name>[\w-]+)' is already used by a Transformers config"),
        explanation="transformers is newer than this vLLM expects: both register {name}.",
        advice="Install the transformers that this vLLM's metadata allows, below the release that "
        "brought the name.",
        safety="auto",
        acts=_as_vllm_asks("transformers"),
    ),
    Rule(
        name="deep-gemm-missing",
        kind="version-skew",
        match=says(r"(?i)deep_?gemm.{0,40}(?:not available|outdated|not installed|missing)"),
        explanation="DeepGEMM is missing or too old, and the warm-up asks for it.",
        advice="Where the model is not FP8 do not install it: go back, or take the warm-up out "
        "with VLLM_DEEP_GEMM_WARMUP=skip. Else install the commit that vLLM's tools name.",
    ),
    Rule(
        name="inductor-template-twice",
        kind="version-skew",
        match=says(r"duplicate template name"),
        explanation="This build of torch registers a compiler template twice in one process; it "
        "fails for every model.",
        advice="Move to the torch that this vLLM pins, or to vLLM's next patch release.",
    ),
    Rule(
        name="module-moved-in-vllm",
        kind="version-skew",
        match=says(
            r"No module named 'vllm\.(?P<module>[\w.]+)'|cannot import name '(?P<name>\w+)' "
            r"from 'vllm\b"
        ),
        explanation="A package beside vLLM was written for another vLLM: it imports what this one "
        "does not have.",
        advice="Look at whose file made the import: install its release for this vLLM, or start "
        "without it.",
    ),
    Rule(
        name="import-name-moved",
        kind="version-skew",
        match=says(r"cannot import name '(?P<name>\w+)' from '(?P<package>[\w.]+)'"),
        explanation="{package} is not the version that its user was written for: it has no {name}.",
        advice="Compare the installed version with what vLLM's metadata asks for. A hint `Did you "
        "mean` says that the name has moved: then it is too new.",
    ),
    Rule(
        name="library-missing",
        kind="version-skew",
        match=says(r"^ImportError: (?P<library>lib[\w.+-]+): cannot open shared object file"),
        explanation="The library {library} is gone, or not where the loader looks.",
        advice="Find whose it is. If it belongs to a package of the environment, install that "
        "package anew; if to the system or CUDA, it is for a person.",
    ),
    Rule(
        name="resolver-conflict",
        kind="installer",
        match=either(
            by("uv", r"(?i)because .*(?:depends on|requires|you require|no version|only|and )"),
            by(
                "uv",
                r"(?i)URL dependenc|conflicting dependencies|No solution found|"
                r"Could not find a version|not found in the package registry",
            ),
        ),
        explanation="The installer found no set of versions that everybody accepts.",
        advice="Read who asks for what. An index in the wrong order, another platform's pins or a "
        "requirement by URL in a nightly are the usual reasons; another nightly may not have it.",
    ),
    Rule(
        name="stable-instead-of-nightly",
        kind="installer",
        match=both(
            holds(lambda symptoms: symptoms.root_cause is None),
            somewhere(r"^Version: \d+\.\d+\.\d+(?:\.post\d+)?$"),
        ),
        line=re.compile(r"^Version: \d+\.\d+\.\d+(?:\.post\d+)?$"),
        explanation="The installer took the stable release and not the nightly: a development "
        "version sorts before its release.",
        advice="Install the exact version or wheel that was resolved from the nightly index, and "
        "verify what is installed.",
        safety="auto",
    ),
)
