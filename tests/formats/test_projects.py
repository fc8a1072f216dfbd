"""Keys: the golden vectors, the override, and what the rule promises for any path."""

from __future__ import annotations

import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import UsageError
from turnlog.formats import hash_of, key_of, project_hash, project_key, same_project_key
from turnlog.formats.claude_code import paths

ROCKET = "\N{ROCKET}"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/home/u/my.app_v2", "-home-u-my-app-v2"),
        (f"/home/u/{ROCKET}app", "-home-u---app"),
        ("/" + "a" * 250, "-" + "a" * 199 + "-feo44x"),
        ("/" + ROCKET * 120, "-" * 200 + "-6nzpex"),
        ("/tmp/" + "é" * 210, "-tmp-" + "-" * 195 + "-jvwydj"),
    ],
)
def test_keys_equal_those_that_claude_code_makes(path, key):
    assert key_of(path) == key


def test_a_key_of_exactly_two_hundred_units_is_not_cut():
    assert key_of("/" + "a" * 199) == "-" + "a" * 199
    assert len(key_of("/" + "a" * 200)) > 200


def test_the_cap_counts_utf16_units_and_not_characters():
    assert key_of(ROCKET * 100) == "-" * 200
    assert key_of(ROCKET * 101)[:201] == "-" * 201


@given(st.text(alphabet=st.characters(), max_size=300))
def test_any_text_gives_a_safe_component(path):
    key = key_of(path)
    assert re.fullmatch(r"[A-Za-z0-9-]*", key)
    assert len(key) <= 200 + 1 + 6
    assert key == key_of(path)


def test_lone_surrogates_from_undecodable_names_have_a_key():
    assert key_of("/home/\udcff") == "-home--"


def test_the_hash_of_a_directory_is_the_seeds_rule():
    assert hash_of("/Users/nick/projects/my-app") == "v_FXjHoCS5zUJmfyn-5v"


@given(st.text(max_size=80))
def test_a_hash_has_twenty_url_safe_characters(path):
    assert re.fullmatch(r"[A-Za-z0-9_-]{20}", hash_of(path))


def test_a_relative_directory_is_made_absolute_before_hashing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert project_hash("app") == hash_of(os.path.join(os.getcwd(), "app"))
    assert project_hash("app/../app/") == project_hash("app")


def test_a_project_key_resolves_links_and_composes_accents(tmp_path):
    real = tmp_path / "cafe\u0301"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    expected = key_of(unicodedata.normalize("NFC", os.path.realpath(real)))
    assert project_key(link, environ={}) == project_key(real, environ={}) == expected
    assert expected.endswith("-caf-")


@pytest.mark.skipif(os.name == "nt", reason="there they are resolved")
@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("S:\\Repos\\Docs", "S--Repos-Docs"),
        ("S:\\Repos\\Docs\\", "S--Repos-Docs"),
        ("c:/work/my app", "c--work-my-app"),
        ("\\\\farm\\share\\barn", "--farm-share-barn"),
    ],
)
def test_a_windows_path_has_its_own_key_on_any_system(path, key):
    assert project_key(path, environ={}) == key
    assert project_hash(path) == hash_of(path)


def test_the_chosen_name_counts_only_beside_a_config_dir(tmp_path):
    chosen = {"CLAUDE_CODE_PROJECT_DIR_NAME": "tenant_42"}
    plain = project_key(tmp_path, environ={})
    assert project_key(tmp_path, environ=chosen) == plain
    assert project_key(tmp_path, environ={**chosen, "CLAUDE_CONFIG_DIR": ""}) == plain
    assert project_key(tmp_path, environ={**chosen, "CLAUDE_CONFIG_DIR": "/c"}) == "tenant_42"


@pytest.mark.parametrize("name", ["", "a/b", "..", "a.b", "x" * 65, "tenant\n", "NUL", "com1"])
def test_an_unsafe_chosen_name_is_ignored(name, tmp_path):
    environ = {"CLAUDE_CONFIG_DIR": "/c", "CLAUDE_CODE_PROJECT_DIR_NAME": name}
    assert project_key(tmp_path, environ=environ) == project_key(tmp_path, environ={})


def test_the_environment_of_the_process_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/c")
    monkeypatch.setenv("CLAUDE_CODE_PROJECT_DIR_NAME", "chosen")
    assert project_key(tmp_path) == "chosen"


def test_long_keys_match_although_an_old_build_hashed_them_differently():
    long = key_of("/" + "a" * 250)
    assert same_project_key(long, long[:200] + "-oldhash")
    assert same_project_key("-a-b", "-a-b")
    assert not same_project_key("-a-b", "-a-c")
    assert not same_project_key(long, long[:200])
    assert not same_project_key(long, "-" + "b" * 199 + "-feo44x")


def test_a_nul_in_a_directory_is_the_callers_mistake():
    with pytest.raises(UsageError):
        project_key("/a\0b", environ={})
    with pytest.raises(UsageError):
        project_hash("/a\0b")


def test_nothing_offers_to_turn_a_key_back_into_a_path():
    assert not [name for name in dir(paths) if "decode" in name.lower()]
