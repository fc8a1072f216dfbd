"""The durable memory of coding agents.

    import turnlog

    with turnlog.open("~/agent") as store, store.create(project=".") as session:
        session.append(turnlog.build.user("Hello"))

    with turnlog.open_log("s.jsonl") as log:          # acknowledged means on the disk
        log.append({"type": "user", "message": {"role": "user", "content": "Hello"}})

    for item in turnlog.read_log("s.jsonl"):          # every record, every damage
        match item:
            case turnlog.Placed(record=turnlog.User() as user): print(user.text)
            case turnlog.Damage(line=line, reason=reason): print(line, reason)

Names are loaded when they are first used: ``import turnlog`` costs next to nothing.
"""

try:
    from turnlog._version import __version__ as __version__  # Written by a build.
except ModuleNotFoundError:
    __version__ = "0.0+unknown"

TYPE_CHECKING = False  # As in typing, which takes a while to import.
if TYPE_CHECKING:
    from typing import Any

    from turnlog.api.async_store import AsyncSession as AsyncSession
    from turnlog.api.async_store import AsyncStore as AsyncStore
    from turnlog.api.async_store import aopen as aopen
    from turnlog.api.costs import BlockLedger as BlockLedger
    from turnlog.api.costs import BudgetReport as BudgetReport
    from turnlog.api.costs import CostComparison as CostComparison
    from turnlog.api.costs import Explanation as Explanation
    from turnlog.api.costs import Figures as Figures
    from turnlog.api.costs import Ledger as Ledger
    from turnlog.api.costs import LedgerRow as LedgerRow
    from turnlog.api.health.logs import Health as Health
    from turnlog.api.insights import Insights as Insights
    from turnlog.api.keep.copies import KeepRun as KeepRun
    from turnlog.api.keep.restore import Archived as Archived
    from turnlog.api.keep.restore import Restored as Restored
    from turnlog.api.keep.restore import Unarchived as Unarchived
    from turnlog.api.keep.trash import Deletion as Deletion
    from turnlog.api.keep.trash import PruneReport as PruneReport
    from turnlog.api.query import QueryDocument as QueryDocument
    from turnlog.api.query import SqlDocument as SqlDocument
    from turnlog.api.refresh import RefreshResult as RefreshResult
    from turnlog.api.search import Hit as Hit
    from turnlog.api.search import SearchDocument as SearchDocument
    from turnlog.api.sessions.kept_session import KeptSession as KeptSession
    from turnlog.api.sessions.lists import IndexedSession as IndexedSession
    from turnlog.api.sessions.lists import SessionRow as SessionRow
    from turnlog.api.store import Store as Store
    from turnlog.api.store import open as open  # noqa: A004
    from turnlog.errors import AmbiguousSession as AmbiguousSession
    from turnlog.errors import BrokenCopy as BrokenCopy
    from turnlog.errors import BrokenIndex as BrokenIndex
    from turnlog.errors import ClosedLog as ClosedLog
    from turnlog.errors import FormatTooNew as FormatTooNew
    from turnlog.errors import IndexTooNew as IndexTooNew
    from turnlog.errors import IndexUnavailable as IndexUnavailable
    from turnlog.errors import InvalidId as InvalidId
    from turnlog.errors import LogError as LogError
    from turnlog.errors import LogLocked as LogLocked
    from turnlog.errors import NotALog as NotALog
    from turnlog.errors import NotFound as NotFound
    from turnlog.errors import NotSerialisable as NotSerialisable
    from turnlog.errors import StorageFull as StorageFull
    from turnlog.errors import SyncFailed as SyncFailed
    from turnlog.errors import TurnlogError as TurnlogError
    from turnlog.errors import UnreadableHome as UnreadableHome
    from turnlog.errors import UnsafeFilesystem as UnsafeFilesystem
    from turnlog.errors import UnsafeRecovery as UnsafeRecovery
    from turnlog.errors import UsageError as UsageError
    from turnlog.errors import WriteFailed as WriteFailed
    from turnlog.formats.flat.registry import Reindexed as Reindexed
    from turnlog.pricing.cost import Prices as Prices
    from turnlog.pricing.cost import cost as cost
    from turnlog.pricing.cost import load_prices as load_prices
    from turnlog.pricing.money import Unpriced as Unpriced
    from turnlog.records.codec import Envelope as Envelope
    from turnlog.records.codec import decode as decode
    from turnlog.records.codec import decode_envelope as decode_envelope
    from turnlog.records.codec import encode as encode
    from turnlog.records.damage import Damage as Damage
    from turnlog.records.damage import Reason as Reason
    from turnlog.records.meaning import Author as Author
    from turnlog.records.meaning import Meaning as Meaning
    from turnlog.records.meaning import author_of as author_of
    from turnlog.records.meaning import meaning_of as meaning_of
    from turnlog.records.record import Assistant as Assistant
    from turnlog.records.record import Attachment as Attachment
    from turnlog.records.record import Call as Call
    from turnlog.records.record import CallBlock as CallBlock
    from turnlog.records.record import Message as Message
    from turnlog.records.record import Progress as Progress
    from turnlog.records.record import Record as Record
    from turnlog.records.record import Result as Result
    from turnlog.records.record import ResultBlock as ResultBlock
    from turnlog.records.record import Summary as Summary
    from turnlog.records.record import System as System
    from turnlog.records.record import TextBlock as TextBlock
    from turnlog.records.record import ThinkingBlock as ThinkingBlock
    from turnlog.records.record import Unknown as Unknown
    from turnlog.records.record import User as User
    from turnlog.records.usage import Usage as Usage
    from turnlog.sessions.convert.convert import Converted as Converted
    from turnlog.sessions.convert.convert import convert as convert
    from turnlog.sessions.metadata import Metadata as Metadata
    from turnlog.sessions.reading.follow import FollowedItem as FollowedItem
    from turnlog.sessions.reading.prompt_queue import QueuedPrompt as QueuedPrompt
    from turnlog.sessions.reading.ranges import replay as replay
    from turnlog.sessions.recover import Recovery as Recovery
    from turnlog.sessions.recover_undo import UndoneRecovery as UndoneRecovery
    from turnlog.sessions.session import Session as Session
    from turnlog.sessions.session import Turn as Turn
    from turnlog.sessions.state import Running as Running
    from turnlog.sessions.state import State as State
    from turnlog.sessions.totals import SessionTotals as SessionTotals
    from turnlog.sessions.writing import build as build
    from turnlog.sessions.writing.buffered import BufferedSession as BufferedSession
    from turnlog.sessions.writing.fork import fork as fork
    from turnlog.sessions.writing.streaming import StreamedMessage as StreamedMessage
    from turnlog.sessions.writing.writer import SessionWriter as SessionWriter
    from turnlog.storage.buffered_writer import BufferedLog as BufferedLog
    from turnlog.storage.buffered_writer import open_log as open_log
    from turnlog.storage.reader import Pending as Pending
    from turnlog.storage.reader import Placed as Placed
    from turnlog.storage.reader import Reader as Reader
    from turnlog.storage.reader import read_log as read_log
    from turnlog.storage.reader import read_range as read_range
    from turnlog.storage.reader import scan_log as scan_log
    from turnlog.storage.repair import Finding as Finding
    from turnlog.storage.repair import Repair as Repair
    from turnlog.storage.repair import Validation as Validation
    from turnlog.storage.repair import repair as repair
    from turnlog.storage.repair import validate as validate
    from turnlog.storage.tail import Restart as Restart
    from turnlog.storage.tail import follow_log as follow_log
    from turnlog.storage.tail import read_last as read_last
    from turnlog.storage.writer import Appended as Appended
    from turnlog.storage.writer import LogWriter as LogWriter
    from turnlog.storage.writer import News as News

# Where each public name is defined; tests/test_house.py keeps it equal to the imports above.
_HOMES: dict[str, tuple[str, ...]] = {
    "turnlog.api.async_store": (
        "AsyncSession",
        "AsyncStore",
        "aopen",
    ),
    "turnlog.api.costs": (
        "BlockLedger",
        "BudgetReport",
        "CostComparison",
        "Explanation",
        "Figures",
        "Ledger",
        "LedgerRow",
    ),
    "turnlog.api.health.logs": ("Health",),
    "turnlog.api.refresh": ("RefreshResult",),
    "turnlog.api.insights": ("Insights",),
    "turnlog.api.keep.copies": ("KeepRun",),
    "turnlog.api.query": (
        "QueryDocument",
        "SqlDocument",
    ),
    "turnlog.api.keep.restore": (
        "Archived",
        "Restored",
        "Unarchived",
    ),
    "turnlog.api.search": (
        "Hit",
        "SearchDocument",
    ),
    "turnlog.api.sessions.kept_session": ("KeptSession",),
    "turnlog.api.sessions.lists": (
        "IndexedSession",
        "SessionRow",
    ),
    "turnlog.api.store": (
        "Store",
        "open",
    ),
    "turnlog.api.keep.trash": (
        "Deletion",
        "PruneReport",
    ),
    "turnlog.errors": (
        "AmbiguousSession",
        "BrokenCopy",
        "BrokenIndex",
        "ClosedLog",
        "FormatTooNew",
        "IndexTooNew",
        "IndexUnavailable",
        "InvalidId",
        "LogError",
        "LogLocked",
        "NotALog",
        "NotFound",
        "NotSerialisable",
        "StorageFull",
        "SyncFailed",
        "TurnlogError",
        "UnreadableHome",
        "UnsafeFilesystem",
        "UnsafeRecovery",
        "UsageError",
        "WriteFailed",
    ),
    "turnlog.formats.flat.registry": ("Reindexed",),
    "turnlog.pricing.cost": (
        "Prices",
        "cost",
        "load_prices",
    ),
    "turnlog.pricing.money": ("Unpriced",),
    "turnlog.records.codec": (
        "Envelope",
        "decode",
        "decode_envelope",
        "encode",
    ),
    "turnlog.records.damage": (
        "Damage",
        "Reason",
    ),
    "turnlog.records.meaning": (
        "Author",
        "Meaning",
        "author_of",
        "meaning_of",
    ),
    "turnlog.records.record": (
        "Assistant",
        "Attachment",
        "Call",
        "CallBlock",
        "Message",
        "Progress",
        "Record",
        "Result",
        "ResultBlock",
        "Summary",
        "System",
        "TextBlock",
        "ThinkingBlock",
        "Unknown",
        "User",
    ),
    "turnlog.records.usage": ("Usage",),
    "turnlog.sessions": ("build",),
    "turnlog.sessions.convert.convert": (
        "Converted",
        "convert",
    ),
    "turnlog.sessions.metadata": ("Metadata",),
    "turnlog.sessions.reading.follow": ("FollowedItem",),
    "turnlog.sessions.reading.prompt_queue": ("QueuedPrompt",),
    "turnlog.sessions.reading.ranges": ("replay",),
    "turnlog.sessions.recover": ("Recovery",),
    "turnlog.sessions.recover_undo": ("UndoneRecovery",),
    "turnlog.sessions.session": (
        "Session",
        "Turn",
    ),
    "turnlog.sessions.state": (
        "Running",
        "State",
    ),
    "turnlog.sessions.totals": ("SessionTotals",),
    "turnlog.sessions.writing.buffered": ("BufferedSession",),
    "turnlog.sessions.writing.fork": ("fork",),
    "turnlog.sessions.writing.streaming": ("StreamedMessage",),
    "turnlog.sessions.writing.writer": ("SessionWriter",),
    "turnlog.storage.buffered_writer": (
        "BufferedLog",
        "open_log",
    ),
    "turnlog.storage.reader": (
        "Pending",
        "Placed",
        "Reader",
        "read_log",
        "read_range",
        "scan_log",
    ),
    "turnlog.storage.repair": (
        "Finding",
        "Repair",
        "Validation",
        "repair",
        "validate",
    ),
    "turnlog.storage.tail": (
        "Restart",
        "follow_log",
        "read_last",
    ),
    "turnlog.storage.writer": (
        "Appended",
        "LogWriter",
        "News",
    ),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - a list, made from the table above.


def __getattr__(name: str) -> "Any":
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'turnlog' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - Commands need none of this.

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
