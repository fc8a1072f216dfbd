"""Trees of every shape: branches, rings, missing parents, compactions that point anywhere."""

from hypothesis import strategies as st

from sessions.trees import answer, call, record, result

_numbers = st.integers(0, 11)
_parents = st.integers(-1, 13)


@st.composite
def _records(draw):
    uuid, parent = draw(_numbers), draw(_parents)
    above = f"u{parent}" if parent >= 0 else None
    kind = draw(st.sampled_from(["prompt", "answer", "call", "result", "meta", "note", "cut"]))
    side = {"isSidechain": draw(st.booleans()) and draw(st.booleans())}
    match kind:
        case "answer":
            return answer(f"u{uuid}", above, draw(st.sampled_from(["m1", "m2", None])), **side)
        case "call":
            return answer(f"u{uuid}", above, f"m{draw(_numbers)}", call(f"c{uuid}"), **side)
        case "result":
            return result(f"u{uuid}", above, f"c{draw(_numbers)}", **side)
        case "note":
            return record(f"u{uuid}", above, "system", content="a note", **side)
        case "cut":
            named = f"u{draw(_parents.filter(lambda number: number >= 0))}"
            fields = {"subtype": "compact_boundary", "logicalParentUuid": named}
            return record(f"u{uuid}", None, "system", **fields, **side)
    return record(f"u{uuid}", above, isMeta=kind == "meta", **side)


logs = st.lists(_records(), max_size=30)
"""Records of a log, as plain objects, in which parents may be missing, later, or one's own."""
