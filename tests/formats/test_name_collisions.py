"""Names that some file systems take for one are found, whatever directories they have in common."""

from hypothesis import given
from hypothesis import strategies as st

from turnlog.formats.kept_copies import Spellings, folded, is_spelled, prefixes

PARTS = st.sampled_from(["a", "A", "b", "\u00e9", "e\u0301", "E\u0301"])
NAMES = st.lists(PARTS, min_size=1, max_size=3)


def test_a_name_meets_another_where_its_directory_does():
    spellings = Spellings()
    names = ["projects/-Mill/a", "projects/-Mill/b", "projects/-mill/c", "projects/-MILL/a"]
    assert [spellings.place(name) for name in names] == [0, 0, 1, 2]
    assert spellings.place("projects/-mill/d") == 1
    assert [spellings.place(name) for name in ("x/caf\u00e9", "x/cafe\u0301")] == [0, 1]


@given(st.lists(NAMES.map("/".join), max_size=12, unique=True))
def test_in_one_tree_every_prefix_has_one_spelling(names):
    spellings = Spellings()
    spelt = {}
    for name in names:
        tree = spellings.place(name)
        for part in prefixes(name):
            assert spelt.setdefault((tree, folded(part)), part) == part


def test_a_directory_lists_a_name_or_does_not(tmp_path):
    (tmp_path / "cafe\u0301").touch()
    assert is_spelled(f"{tmp_path}/caf\u00e9")
    assert not is_spelled(f"{tmp_path}/CAFE\u0301")
