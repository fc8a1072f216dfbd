"""User names, host names and home directories get pseudonyms; other words stay as they are."""

import json

import pytest

from turnlog.redact import Pseudonyms


def renamed(text, *others, **known):
    """Learn from all texts and give the first one, replaced."""
    names = Pseudonyms(**known)
    for each in (text, *others):
        names.learn(each)
    return names.text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/ada/orchard", "/home/user1/orchard"),
        ("/home/ada", "/home/user1"),
        ("see /home/ada/x.", "see /home/user1/x."),
        ("file:///home/ada/x", "file:///home/user1/x"),
        ("/Users/ada/Library/x", "/Users/user1/Library/x"),
        ("/var/home/ada/x", "/var/home/user1/x"),
        ("C:\\Users\\ada\\x", "C:\\Users\\user1\\x"),
        ("c:\\users", "c:\\users"),
        ("C:\\Users\\Ada Lovelace\\My Files", "C:\\Users\\user1\\My Files"),
        ('{"cwd":"C:\\\\Users\\\\ada\\\\x"}', '{"cwd":"C:\\\\Users\\\\user1\\\\x"}'),
        ("C:/Users/ada/x and /mnt/c/Users/ada/y", "C:/Users/user1/x and /mnt/c/Users/user1/y"),
        ("/c/Users/ada/x", "/c/Users/user1/x"),
        ("\\\\barn-2\\share\\x", "\\\\host1\\share\\x"),
        ("/home/ada/x ~ada/y ~ada", "/home/user1/x ~user1/y ~user1"),
        ("/home/ada.lovelace/x", "/home/user1/x"),
        ("/home/ada/x /home/bea/y /home/ada/z", "/home/user1/x /home/user2/y /home/user1/z"),
        ("/home/josé/x, José", "/home/user1/x, user1"),
        ("/home/ada/projects/-home-ada-kite", "/home/user1/projects/-home-user1-kite"),
        ("ada@lighthouse:~$ ls", "user1@host1:~$ ls"),
        ("(venv) ada@lighthouse:~/x# ls", "(venv) user1@host1:~/x# ls"),
        ("[ada@lighthouse x]$ ls", "[user1@host1 x]$ ls"),
        ("ada@Adas-MacBook-Pro kite % ls", "user1@host1 kite % ls"),
        ("ssh ada@lighthouse uptime", "ssh user1@host1 uptime"),
        ("ssh -p 22 ada@lighthouse.farm.net", "ssh -p 22 user1@host1"),
        ("scp x ada@10.1.2.3:/tmp", "scp x user1@host1:/tmp"),
        ("rsync -a x/ ada@barn-2:y && ssh barn-2", "rsync -a x/ user1@host1:y && ssh host1"),
        ("ssh barn-2 ls\nping barn-2", "ssh host1 ls\nping host1"),
        ("/home/ada/x git@github.com:ada/kite.git", "/home/user1/x git@github.com:user1/kite.git"),
        ("Ada Lovelace <ada@farm.net>\nAda Lovelace", "user1 <user1@farm.net>\nuser1"),
        ("Ada King <7+ada@users.noreply.farm.net>", "user1 <7+user1@users.noreply.farm.net>"),
        ("-rw-r--r-- 1 ada ada 12 /home/ada/x", "-rw-r--r-- 1 user1 user1 12 /home/user1/x"),
        ('"/home/ada/x\\nada: done"', '"/home/user1/x\\nuser1: done"'),
    ],
)  # fmt: skip
def test_names_are_replaced_where_they_are_names(text, expected):
    assert renamed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "adamant Canada ADAPTER adan ada_x xada nada",
        "Ramada, Badajoz, ada1",
        "éada adaß",
        "import random",
    ],
)
def test_other_words_stay(text):
    assert renamed(text, "/home/ada/x") == text


@pytest.mark.parametrize("text", ["ada said", "Ada, ADA.", "for ada:", "(ada)", "ada-kite", "@ada"])
def test_a_name_is_replaced_in_prose(text):
    assert "ada" not in renamed(text, "/home/ada/x").lower()


@pytest.mark.parametrize("name", ["mark", "will", "build", "test", "grace", "vi", "may"])
def test_a_name_that_is_a_word_is_replaced_only_in_paths_and_addresses(name):
    text = f"I {name} that; {name.title()} {name} it. {name}.py {name}()"
    assert renamed(text, f"/home/{name}/x") == text
    assert renamed(f"/home/{name}/x ~{name} {name}@farm-1") == "/home/user1/x ~user1 user1@farm-1"


def test_a_name_that_is_used_as_a_word_counts_as_one():
    texts = ("/home/falcon/falcon/x", "the falcon flies", "import falcon", "run falcon")
    assert [renamed(text, *texts) for text in texts] == ["/home/user1/falcon/x", *texts[1:]]
    names = Pseudonyms()
    for text in texts:
        names.learn(text)
    assert names.only_in_context == []
    names.text(texts[0])
    assert (names.only_in_context, names.count) == (["falcon"], 1)
    # Said of the account itself, it is no such use.
    assert renamed("ada", "/home/ada/x", "the ada user", "the ada account") == "user1"


def test_hosts_that_may_be_words_stay_in_prose():
    text = "The lighthouse, npm i lighthouse@latest, @lighthouse/core, lighthouse.py"
    assert renamed(text, "ada@lighthouse:~$ ls") == text
    more = "ada@lighthouse:~$ ping lighthouse.local; curl http://lighthouse:80/"
    assert renamed(more) == "user1@host1:~$ ping host1.local; curl http://host1:80/"


@pytest.mark.parametrize(
    "text",
    [
        "/home/ubuntu/x /home/runner/y /root/z /Users/Shared/w",
        "git@github.com:kite/kite.git",
        "ssh git@github.com",
        "npm i left-pad@1.3.0 @types/node actions/checkout@v4",
        "src/home/index.tsx https://x.net/home/start/",
        "ssh into the server, ssh keys",
        "Co-Authored-By: Claude <noreply@anthropic.com>",
        "root@localhost:~# ls",
    ],
)
def test_what_names_nobody_stays(text):
    assert renamed(text) == text


def test_nobody_gets_the_name_of_somebody_else():
    names = Pseudonyms()
    names.learn("/home/ada/x /home/user1/y /home/bea/z")
    once = names.text("ada user1 bea")
    assert once == "user2 user3 user4"
    assert names.text(once) == once


def test_a_user_and_a_host_of_one_name_differ():
    assert renamed("ada@ada:~$ ls /home/ada") == "user1@host1:~$ ls /home/user1"


def test_names_of_this_machine_are_known():
    known = {"users": ["zora"], "hosts": ["mast-7", "localhost"]}
    assert renamed("zora on mast-7 or localhost", **known) == "user1 on host1 or localhost"
    names = Pseudonyms(**known)
    assert (names.text("nothing here"), names.count) == ("nothing here", 0)


def test_a_line_stays_json_and_changes_only_where_a_name_is():
    names = Pseudonyms()
    raw = b'{"cwd" : "C:\\\\Users\\\\ada\\\\x", "n":1.50, "t":"caf\\u00e9 nada", "m":"hi\\nada"}'
    names.learn_line(raw)
    line = names.line(raw)
    assert line == raw.replace(b"\\ada", b"\\user1").replace(b"\\nada", b"\\nuser1")
    assert json.loads(line)["cwd"] == "C:\\Users\\user1\\x"
    image = json.dumps({"type": "base64", "data": "+ada/" * 80, "cwd": "/home/ada"}).encode()
    assert names.line(image) == image.replace(b"home/ada", b"home/user1")
    assert names.value(json.loads(image)) == json.loads(names.line(image))
    assert names.line(b'{"torn": "/home/ada/x') == b'{"torn": "/home/ada/x'
