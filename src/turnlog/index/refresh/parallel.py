"""Child processes read the logs of a large refresh while this process writes the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from turnlog.index.processes import Children, can_fork, processors
from turnlog.index.refresh.chunks import Chunk, Work
from turnlog.index.refresh.log_reader import chunks_of

# Starting a child takes as long as reading so much.
_WORTH_A_CHILD_BYTES: Final = 8_000_000
# With more children the writing process is the slowest.
_MOST_CHILDREN: Final = 3
_MESSAGE_TEXT_BYTES: Final = 4 * 1024 * 1024

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Chunk]).decode


def read_logs(works: Sequence[Work], size_bytes: int) -> Iterator[Chunk]:
    """Yield the chunks of all *works*, about *size_bytes* in all; those of one log in order."""
    children = min(processors() - 1, _MOST_CHILDREN)
    if children < 1 or size_bytes < _WORTH_A_CHILD_BYTES or not can_fork():
        for work in works:
            yield from chunks_of(work)
    else:
        yield from _read_by_children(works, children)


def _read_by_children(works: Sequence[Work], count: int) -> Iterator[Chunk]:
    left = {work.id: work for work in works}
    with Children(_messages, [works[first::count] for first in range(count)]) as children:
        for _, message in children.messages():
            for chunk in _unpack(message):
                work = left.pop(chunk.log)
                if not chunk.is_last:
                    left[work.id] = msgspec.structs.replace(
                        work, start=chunk.bookmark.offset, folded=chunk.folded
                    )
                yield chunk
    for work in left.values():  # Those of a child that was killed or could not be started.
        yield from chunks_of(work)


def _messages(works: Iterable[Work]) -> Iterator[bytes]:
    """Read *works* in a child; yield packed lists of chunks."""
    chunks: list[Chunk] = []
    text_bytes = 0
    for work in works:
        for chunk in chunks_of(work):
            chunks.append(chunk)
            text_bytes += chunk.text_bytes
            if text_bytes >= _MESSAGE_TEXT_BYTES:
                yield _pack(chunks)
                chunks, text_bytes = [], 0
    yield _pack(chunks)
