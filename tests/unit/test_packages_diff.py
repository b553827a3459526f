"""What an install changed."""

from tasks.packages.diff import PackageChange, diff, unplanned

BEFORE = {
    "vllm": "0.16.0rc2.dev313+g662205d34",
    "flashinfer-python": "0.6.3",
    "flashinfer-cubin": "0.6.3",
    "sentry-sdk": "3.0.0a7",
    "numpy": "2.2.0",
    "gone": "1.0",
}
AFTER = {
    "vllm": "0.16.0rc2.dev344+gea5f903f8",
    "flashinfer_python": "0.6.4",
    "flashinfer-cubin": "0.6.3",
    "sentry-sdk": "2.53.0",
    "numpy": "2.2.0",
    "new": "1.0",
}
LOCKED = ["vllm", "flashinfer-python", "sentry_sdk", "numpy", "new"]


def names(changes: tuple[PackageChange, ...]) -> list[str]:
    return [change.name for change in changes]


def test_every_change_has_its_word() -> None:
    found = diff(BEFORE, AFTER, LOCKED)

    assert names(found.ups) == ["flashinfer-python", "vllm"]
    assert found.downs == (PackageChange("sentry-sdk", "3.0.0a7", "2.53.0", "down"),)
    assert names(found.reinstalled) == ["numpy"]
    assert names(found.added) == ["new"]
    assert names(found.removed) == ["gone"]
    assert found.left_behind == (PackageChange("flashinfer-cubin", "0.6.3", "0.6.3", "left"),)
    assert len(found.changes) == 7


def test_a_version_that_cannot_be_ordered_is_not_called_up_or_down() -> None:
    found = diff({"odd": "1.0-what?"}, {"odd": "1.1"}, ["odd"])

    assert [change.change for change in found.changes] == ["changed"]


def test_only_another_local_part_is_a_direction() -> None:
    found = diff({"torch": "2.11.0+cu129"}, {"torch": "2.11.0+cu130"}, ["torch"])

    assert names(found.ups) == ["torch"]


def test_what_is_not_as_planned_is_named_but_for_what_a_remedy_moved() -> None:
    planned = diff(BEFORE, AFTER, LOCKED)
    assert unplanned(planned, AFTER) == []
    other = {**AFTER, "NumPy": "9", "extra": "1", "Flashinfer_Cubin": "0.6.4"}
    assert unplanned(planned, {k: v for k, v in other.items() if k != "new"}) == [
        "extra",
        "flashinfer-cubin",
        "new",
        "numpy",
    ]
    assert "flashinfer-cubin" not in unplanned(planned, other, ["flashinfer_cubin"])
