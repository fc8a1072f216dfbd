r"""Replace user names, host names and home directories: ada becomes user1 throughout an export.

Names are learned first, from all texts of the export: from home directories (``/home/ada/``,
``C:\Users\ada``), shell prompts (``ada@lighthouse:~$``), ssh commands and e-mail addresses of
commits. Then each is replaced wherever it is a whole word. A name that is also an ordinary word
(Mark, build, lighthouse) is replaced only where it must be a name, such as in a path or before @.
Accounts that belong to nobody, such as root or ubuntu, and public hosts stay.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Images: their base64 must not change.
_BYTES: Final = re.compile(rb'"[A-Za-z0-9+/]{256,}={0,2}"')
_DEEPEST: Final = 200
_SHORTEST: Final = 3
_USED_AS_WORD: Final = 2
"""How often a name has to be used like an ordinary word to count as one."""

_NAME: Final = r"[^\W_][\w-]*(?:\.[\w-]+)*"
_HOST: Final = r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
_UNIX_HOMES: Final = re.compile(
    rf"(?<![\w.~/-])(?:file://)?(?:/(?:var|export|usr))?/home/({_NAME})/"
)
_MAC_HOMES: Final = re.compile(rf"(?<![\w.~/-])(?:file://)?/Users/({_NAME})/")
_WINDOWS_HOMES: Final = re.compile(
    r"(?:\b[A-Za-z]:|(?<!\w)/(?:mnt/|cygdrive/)?[a-z])(?P<slash>\\+|/)Users(?P=slash)"
    r"([^\W_](?:[\w.-]| (?=[\w.-]+(?P=slash)))*)"
)
_PROMPTS: Final = (
    re.compile(rf"(?<![\w.@/+-])({_NAME})@({_HOST}):(?:~|/)[^\s$#%]{{0,200}}\s?[$#%](?=\s|$)"),
    re.compile(rf"\[({_NAME})@({_HOST}) [^\]\n]{{0,200}}\][$#]"),
    re.compile(rf"(?m)^(?:\(\w+\) )?({_NAME})@({_HOST}) [~\w./-]+ [%#$](?=\s|$)"),
)
_SSH_LINE: Final = re.compile(r"\b(?:ssh|scp|sftp|rsync|mosh|ssh-copy-id)\s[^\n]*")
_ADDRESS: Final = re.compile(rf"(?<![\w.@/+-])({_NAME})@({_HOST})")
_SSH_HOST: Final = re.compile(
    rf"(?m)(?:^|[;&|$]\s*)(?:ssh|mosh)\s+(?:-[A-Za-z]+\s+)*({_HOST})(?=\s|$)"
)
_PERSON: Final = r"[^\W\d_][\w'\u2019.-]*"
_BEFORE_ADDRESS: Final = re.compile(rf"(?<![\w'\u2019.-]){_PERSON}(?: {_PERSON}){{1,3}}(?= $)")
_AUTHOR: Final = re.compile(rf"<(?:\d+\+)?({_NAME})@({_HOST})>")
_LONGEST_PERSON: Final = 80
_NETWORK_PATH: Final = re.compile(r"\\\\([A-Za-z0-9][A-Za-z0-9-]*)\\\w")
_WORDS: Final = re.compile(
    r"\b(?:an?|the|this|these|every|each|my|your|our|its|another|import|def|class)"
    r" ([a-z]{3,})\b(?! (?:user|account|home|login))|\b([a-z]{3,})\("
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


GENERIC: Final = _words(
    """
    root git foo bar baz other example user users username guest nobody admin administrator
    runner runneradmin ubuntu debian centos fedora arch alpine ec2-user azureuser vagrant vscode
    codespace gitpod circleci travis jenkins docker node app linuxbrew postgres mysql redis
    nginx www-data daemon bin sys sync mail news proxy backup www http shared public default all
    noreply no-reply notifications support info hello me you name yourname your-name someone
    host hostname server localhost
    """
)
"""Accounts and hosts that identify nobody."""
_PUBLIC_HOSTS: Final = (
    "github.com", "gitlab.com", "bitbucket.org", "dev.azure.com", "heroku.com", "sourceforge.net",
    "codeberg.org", "sr.ht", "hf.co", "example.com", "example.org", "127.0.0.1", "0.0.0.0",  # noqa: S104 - No socket.
)  # fmt: skip
# Given names and usual accounts that are words as well; others are recognized by their use.
_ORDINARY: Final = _words(
    """
    able agent alias amber angel api april archer art ash aspen august author autumn bar barn
    base basil bay bear bell bill bin bird bishop blue bolt bond boss brand bread brook brown
    buck bud bug build builder bush buster buzz can captain cart case cash cat chance char chase
    chat check cherry chief chip chuck claude clay cliff cloud code coder cook cookie coral core
    crystal daisy dale data dawn day deal dean debug demo deploy dev developer docs dog don dot
    dove drew duke dusty earl east echo else ember end engineer error eve event faith family far
    fern finch fire fish fisher flip flint flora fly forest fox frank free frost gene ginger
    glen gold good grace grant gray green grey grove guy hack hacker harmony hart haven hawk
    hazel heath heather helm hill holly home honey hook hope hunt hunter ice index input iris
    iron ivy jack jade jar java jay jest job joy june just key king kit knight lab lance land
    lane lang lark laurel lead less lily link lion list lock log login long love luck mac main
    major maker man maple mark mason master mat max may melody mercy merit merry mile miles mill
    miller min mint misty model mod moon more new noble north nova oak olive opal ops orange
    owner page paris park pat pearl penny pepper petal pi pierce pike pilot pine piper poppy
    porter post prince print prod python queen query quill rain rand range raven ray read reader
    reed rich river rob robin rock rocket rod rose rowan ruby rue run rush rust rusty sage sandy
    saw scan scout sea self service set shell silver skip sky smith spark spike spring stage
    staging star stark stem sterling stone storm story string sue summer sun sunny swift tab tag
    tanner task team temp test tester testing time tiny tool tree trip true turner type van vi
    violet walker wall ward watch web west white will willow win wind winter wolf wood work
    worker world wren write writer york young zone
    """
)


class Pseudonyms:
    """Learns names from texts, then replaces them: the same name by the same pseudonym."""

    def __init__(self, users: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        """*users* and *hosts* are known already, such as those of this machine."""
        self._users: dict[str, str] = {}
        """User names in lower case, and under which name each is counted."""
        self._hosts: dict[str, str] = {}
        self._known = (list(users), list(hosts))
        self._as_word: Counter[str] = Counter()
        self._is_ready = False
        self._pattern: re.Pattern[str] | None = None
        self._owners: re.Pattern[str] | None = None
        self._names: dict[tuple[str, str], str] = {}
        self._texts: list[str] = []
        self.replaced: set[tuple[str, str]] = set()

    # -- learning ---------------------------------------------------------------------------

    def learning(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield lines of logs and learn the names in them."""
        for line in lines:
            self.learn_line(line)
            yield line

    def learn_line(self, line: bytes) -> None:
        """Learn the names in a line of a log."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = line.decode("utf-8", "replace")
        for text in _strings(value, 0):
            self.learn(text)

    def learn(self, text: str) -> None:
        """Learn the names in *text*."""
        if "/home/" in text:
            self._add_users(found[1] for found in _UNIX_HOMES.finditer(f"{text}/"))
        if "Users" in text:
            self._add_users(found[1] for found in _MAC_HOMES.finditer(f"{text}/"))
            self._add_users(found[2] for found in _WINDOWS_HOMES.finditer(text))
        if "@" in text:
            self._learn_addresses(text)
        if "ssh " in text or "mosh " in text:
            for found in _SSH_HOST.finditer(text):
                if _is_distinctive(found[1]):
                    self._add_host(found[1])
        if text.startswith("\\\\") and (found_host := _NETWORK_PATH.match(text)):
            self._add_host(found_host[1])
        self._as_word.update(found[1] or found[2] for found in _WORDS.finditer(text))

    def _learn_addresses(self, text: str) -> None:
        for pattern in _PROMPTS:
            for found in pattern.finditer(text):
                self._add_users((found[1],))
                self._add_host(found[2])
        for line in _SSH_LINE.finditer(text):
            for found in _ADDRESS.finditer(line[0]):
                if not found[2].endswith(_PUBLIC_HOSTS):
                    self._add_users((found[1],))
                    self._add_host(found[2])
        for found in _AUTHOR.finditer(text):
            local = found[1].lower()
            if local not in GENERIC and not found[2].endswith(_PUBLIC_HOSTS):
                self._users.setdefault(local, local)
                before = text[max(0, found.start() - _LONGEST_PERSON) : found.start()]
                if person := _BEFORE_ADDRESS.search(before):
                    self._users.setdefault(person[0].lower(), self._users[local])

    def _add_users(self, names: Iterable[str]) -> None:
        for name in names:
            low = name.lower().rstrip(".-")
            if low and low not in GENERIC:
                self._users.setdefault(low, low)

    def _add_host(self, name: str) -> None:
        low = name.lower()
        if low in GENERIC or low.endswith(_PUBLIC_HOSTS):
            return
        label = low if low.replace(".", "").isdigit() else low.partition(".")[0]
        self._hosts.setdefault(label, label)
        self._hosts.setdefault(low, label)

    # -- replacing --------------------------------------------------------------------------

    @property
    def only_in_context(self) -> list[str]:
        """The names that are ordinary words too, and were replaced only in paths and addresses."""
        return sorted({name for kind, name in self.replaced if not self._is_bare(kind, name)})

    @property
    def count(self) -> int:
        """How many users and hosts were replaced."""
        return len({self._names[key] for key in self.replaced})

    def text(self, text: str) -> str:
        """Return *text* with every name replaced."""
        pattern = self._compile()
        low = text.lower()
        if pattern is None or not any(name in low for name in self._texts):
            return text  # The usual case, found in a fraction of the time.
        if self._owners is not None:
            text = self._owners.sub(self._owner, text)
        return pattern.sub(self._replacement, text)

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return plain JSON with every name replaced; images stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict) and depth < _DEEPEST:
            return {
                self.text(str(key)): item
                if key == "data" and value.get("type") == "base64"
                else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple) and depth < _DEEPEST:
            return [self.value(item, depth + 1) for item in value]
        return value

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON with every name replaced; only strings with one change."""
        if self._compile() is None or not self._may_have_names(line):
            return line
        return _STRING.sub(self._literal, line)

    def _may_have_names(self, data: bytes) -> bool:
        low = data.lower()
        return b"\\u" in low or any(name.encode() in low for name in self._texts)

    def _literal(self, found: re.Match[bytes]) -> bytes:
        if not self._may_have_names(found[0]) or _BYTES.fullmatch(found[0]):
            return found[0]
        try:
            string = json.loads(found[0])
        except ValueError:  # Damaged.
            return self.text(found[0].decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        changed = self.text(string)
        if changed == string:
            return found[0]
        return json.dumps(changed, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _replacement(self, found: re.Match[str]) -> str:
        name, kind = found[0].lower(), found.lastgroup or ""
        if kind == "bare":
            kind = "user" if name in self._users else "host"
        if (kind, name) not in self._names:  # A host with another domain.
            name = name.partition(".")[0]
        return self._pseudonym(kind, name)

    def _pseudonym(self, kind: str, name: str) -> str:
        self.replaced.add((kind, name))
        return self._names[kind, name]

    def _owner(self, found: re.Match[str]) -> str:
        """Replace the owner and the group in a line of ``ls -l``."""
        user, group = (
            self._pseudonym("user", name.lower()) if name.lower() in self._users else name
            for name in (found[2], found[4])
        )
        return f"{found[1]}{user}{found[3]}{group}"

    def _is_bare(self, kind: str, name: str) -> bool:
        """Return whether a name is replaced also where only the word shows that it is one."""
        if kind == "host":
            return _is_distinctive(name)
        if len(name) < _SHORTEST or name in _ORDINARY:
            return False
        return self._as_word[name] < _USED_AS_WORD

    def _compile(self) -> re.Pattern[str] | None:
        """Return the pattern of all names, in every place where they are names."""
        if self._is_ready:
            return self._pattern
        self._is_ready = True
        users, hosts = self._known
        self._add_users(users)
        for host in hosts:
            self._add_host(host)
        self._name_all()
        self._texts = [*self._users, *self._hosts]
        places = []
        if self._users:
            places.append(f"(?P<user>{_user_places(_any_of(self._users))})")
            self._owners = re.compile(
                r"(?m)^([-dlbcps][-rwxsStT]{9}[.+@]? +\d+ +)([\w.-]+)( +)([\w.-]+)(?= +\d)"
            )
        if self._hosts:
            places.append(f"(?P<host>{_host_places(_any_of(self._hosts))})")
        known = (("user", self._users), ("host", self._hosts))
        if bare := [name for kind, names in known for name in names if self._is_bare(kind, name)]:
            # In JSON within a text, a name may follow the n of an escaped newline.
            places.append(rf"(?:(?<!\w)|(?<=\\[nrt]))(?P<bare>{_any_of(bare)})(?!\w)")
        self._pattern = re.compile("|".join(places), re.IGNORECASE) if places else None
        return self._pattern

    def _name_all(self) -> None:
        """Give a pseudonym to every name, but none that is itself somebody's name."""
        for kind, names in (("user", self._users), ("host", self._hosts)):
            numbers = (n for n in count(1) if f"{kind}{n}" not in names)
            for name, counted_as in names.items():
                if (kind, counted_as) not in self._names:
                    self._names[kind, counted_as] = f"{kind}{next(numbers)}"
                self._names[kind, name] = self._names[kind, counted_as]


_BEFORE_USERS: Final = (
    "/home/", "/Users/", "\\Users\\", "\\\\Users\\\\", "\\\\\\\\Users\\\\\\\\", "~", "USER=",
    "LOGNAME=", "USERNAME=", "/media/", "/var/mail/", "chown ", "chown -R ", "sudo -u ",
)  # fmt: skip


def _user_places(user: str) -> str:
    begins = "|".join(f"(?<={re.escape(each)})" for each in _BEFORE_USERS)
    return "|".join(
        (
            rf"(?:{begins}){user}(?![\w-]|\.\w)",
            rf"(?:(?<=-home-)|(?<=-Users-)){user}(?!\w)",
            rf"(?<![\w.-]){user}(?=@[A-Za-z0-9])",
            rf"(?:(?<=[/@]github\.com[/:])|(?<=[/@]gitlab\.com[/:])){user}(?=/)",
        )
    )


def _host_places(host: str) -> str:
    return "|".join(
        (
            rf"(?<=\w@){host}(?:\.[A-Za-z0-9-]+)*(?![\w@-])",
            rf"(?<=//){host}(?=[:/])|(?<=\\\\){host}(?=\\)|(?<=HOSTNAME=){host}(?![\w-])",
            rf"(?<![\w.-]){host}(?=\.(?:local|lan|home|internal)\b)|(?<=\bssh ){host}(?=\s|$)",
        )
    )


def _is_distinctive(host: str) -> bool:
    """Return whether a host's name cannot be a word: it has a digit, a hyphen or a dot."""
    return len(host) > _SHORTEST and any(each.isdigit() or each in "-." for each in host)


def _any_of(names: Iterable[str]) -> str:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return f"(?:{'|'.join(map(re.escape, longest_first))})"


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            yield str(key)
            if not (key == "data" and value.get("type") == "base64"):
                yield from _strings(item, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _strings(item, depth + 1)
