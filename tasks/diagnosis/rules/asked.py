"""What was asked for: the model, its files, where they come from, and the flags."""

from tasks.diagnosis.rules.model import Rule, either, holds, says

RULES = (
    Rule(
        name="remote-code",
        kind="model-config",
        match=says(r"trust_remote_code=True|contains custom code which must be executed"),
        explanation="The model brings code of its own, or this vLLM has lost the class that it had "
        "for it.",
        advice="Whether that code may run is for a person to decide; never by itself. If it ran "
        "without it yesterday, suspect the change of version.",
        safety="human",
    ),
    Rule(
        name="gated-model",
        kind="hub-access",
        match=says(r"(?i)gated repo|\b40[13] Client Error|Unauthorized for url|invalid user token"),
        explanation="The model hub does not let the service in: its token is missing or has no "
        "grant (a token in somebody's home is not the service's).",
        advice="Put the token back into the unit's environment, or serve a local path.",
        safety="human",
    ),
    Rule(
        name="hub-unreachable",
        kind="hub-access",
        match=says(
            r"(?i)downloading or loading vocab|cached snapshot folder|outgoing traffic has been "
            r"disabled|couldn't connect to|offline mode is enabled|LocalEntryNotFound|"
            r"Max retries exceeded with url|(?:temporary failure in )?name resolution|"
            r"Name or service"
        ),
        explanation="Something has to be downloaded that this host cannot reach or has not got.",
        advice="Provide the file on the host and name its place to the service, or let it out.",
    ),
    Rule(
        name="architecture-unsupported",
        kind="model-config",
        match=says(
            r"Model architectures? .{0,200}(?:(?:is|are) not supported|not supported in-tree|was "
            r"supported in)|does not recognize this architecture"
        ),
        explanation="This vLLM does not know the model's architecture: the model is newer, or it "
        "was removed.",
        advice="Another version of vLLM; the message says until which one it was supported. An "
        "upgrade of transformers alone is not the cure.",
    ),
    Rule(
        name="model-config-unreadable",
        kind="model-config",
        match=says(r"Should have a `model_type` key|Unrecognized model in"),
        explanation="The model's config.json does not say what it is.",
        advice="Compare it with the one upstream: a file of another tool, or half a copy.",
    ),
    Rule(
        name="shard-missing",
        kind="model-files",
        match=says(
            r"(?i)referenced in index but missing|No such file or directory: '\S*\.(?:safetensors|"
            r"bin|json|gguf)'|Cannot find any model weights"
        ),
        explanation="Files of the model are missing: a download that was not ended.",
        advice="Look at the disk's space, then go on with the download of the named files.",
    ),
    Rule(
        name="shard-corrupt",
        kind="model-files",
        match=says(
            r"deserializing header|SafetensorError|PytorchStreamReader|not fully covered|HeaderToo"
        ),
        explanation="A file of the model is cut or corrupt; the message does not say which one.",
        advice="Compare the files' sizes with upstream, and download the wrong one again. A file "
        "of "
        "some hundred bytes is a pointer of git-lfs.",
    ),
    Rule(
        name="weights-not-in-checkpoint",
        kind="model-files",
        match=says(r"weights were not initialized from checkpoint"),
        explanation="The checkpoint lacks weights that the model's config promises.",
        advice="Compare config.json with the shards: they are of two different models or half "
        "copied.",
    ),
    Rule(
        name="model-not-found",
        kind="model-files",
        match=says(r"Invalid repository ID or local directory specified|is not a valid model id"),
        explanation="There is no model where the service was told to look.",
        advice="Look at the path or name: not mounted, mistyped, or without a config file.",
    ),
    Rule(
        name="flag-unknown",
        kind="cli-config",
        match=says(
            r"error: (?:unrecognized arguments|argument \S+|the following arguments are required|"
            r"ambiguous option|expected)"
        ),
        explanation="The unit calls vLLM with a flag that this version does not take so.",
        advice="Drop or rename the flag in ExecStart. --disable-log-requests can simply go: its "
        "effect is the default now. Flags are never changed by themselves.",
    ),
    Rule(
        name="max-model-len-too-long",
        kind="cli-config",
        match=says(r"max_model_len \(\d+\) is greater than the derived max_model_len"),
        explanation="--max-model-len is longer than the model's positions.",
        advice="Lower it to the derived value, or configure rope scaling. "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN is no cure: it gives garbage or crashes.",
    ),
    Rule(
        name="flag-value-refused",
        kind="cli-config",
        match=says(
            r"Input should be |FP8 KV cache .{0,40}requires|Value error, .{0,80}(?:must be|"
            r"cannot be|not supported)"
        ),
        explanation="A flag's value is none that this version takes, or not with this hardware.",
        advice="Read which values it names, and correct the flag.",
    ),
    Rule(
        name="hybrid-kv-cache",
        kind="kv-cache-assert",
        match=says(r"(?i)hybrid kv cache manager is disabled|KV cache specs? to one unified type"),
        explanation="A connector switches off the cache manager that this hybrid model needs.",
        advice="Run the model without the connector, or with one that supports hybrid models.",
    ),
    Rule(
        name="typeddict-python",
        kind="web-stack",
        match=says(r"typing_extensions\.TypedDict.{0,40}instead of"),
        explanation="This build of vLLM runs only on Python 3.12 or newer.",
        advice="Use the fixed vLLM, or an environment with Python 3.12.",
    ),
    Rule(
        name="requests-wait-unserved",
        kind="serving",
        match=holds(
            lambda symptoms: (
                symptoms.hangs
                and symptoms.root_cause is not None
                and "Waiting: " in symptoms.root_cause.text
            )
        ),
        explanation="Requests wait and none is worked on: the engine hangs behind a server that "
        "still answers /health.",
        advice="Ask for one token under a deadline; if none comes, keep py-spy's dump and restart.",
    ),
)

LAST = (
    Rule(
        name="killed",
        kind="runtime-crash",
        match=holds(lambda symptoms: symptoms.death.was_killed and not symptoms.names_a_cause),
        explanation="Somebody sent SIGKILL to the service; it could not say a word. The journal "
        "does not hold who it was.",
        advice="Look at `journalctl -k` for the kernel's memory killer, and for who else is at "
        "work on the host.",
        safety="human",
    ),
    Rule(
        name="hung",
        kind="hang",
        match=holds(
            lambda symptoms: (
                symptoms.death.kind in ("hung", "stalled") and not symptoms.names_a_cause
            )
        ),
        explanation="The start did not come to an end before its deadline, or stood still.",
        advice="Look at the stage it stands at, at the last lines, and at what its processes do. "
        "A slow disk or a cold compile needs a longer limit.",
        safety="human",
    ),
    Rule(
        name="exit-without-a-word",
        kind="runtime-crash",
        match=holds(
            lambda symptoms: symptoms.death.kind == "exited" and not symptoms.names_a_cause
        ),
        explanation="The service ended with status 0 and without a word of why. For systemd that "
        "is a success; for a service that should run it is a failure.",
        advice="Look for who stopped it. With Restart=always in the unit systemd starts it again.",
    ),
    Rule(
        name="worker-died",
        kind="runtime-crash",
        match=either(says(r"proc \S+ died unexpectedly"), says(r"^Fatal Python error")),
        explanation="A process of the engine died without a traceback: killed, or crashed in "
        "native code.",
        advice="Look at `journalctl -k` and at the core dump (`coredumpctl list`).",
        safety="human",
    ),
)
"""What is known only by how it died; asked after everything else."""
