"""Lines of text to documents of token ids."""

from collections.abc import Callable, Iterable

from data.progress import Progress

Segment = list[int]
Document = list[Segment]


def read(
  lines: Iterable[str],
  ids: Callable[[str], list[int]],
  progress: Progress,
  shortest: int = 1,
  longest: int | None = None,
) -> list[Document]:
  """Tokenizes lines, one segment each; a blank line ends a document.

  Lines without a token are skipped, and so are documents without a segment.

  Args:
    lines: lines of text.
    ids: tokenizer, text to token ids.
    progress: is told about megabytes, lines, tokens, and what was left out.
    shortest: segments of fewer tokens are left out.
    longest: segments of more tokens are cut into several; None keeps them.

  Returns:
    Documents in the order of the text.
  """
  documents = []
  document = []
  for line in lines:
    text = line.strip()
    segment = ids(text) if text else []
    if len(segment) >= shortest:
      if longest and len(segment) > longest:
        document += _cut(segment, longest)
        progress.add(0, cut_lines=1)
      else:
        document.append(segment)
    elif text:
      progress.add(0, dropped_lines=1)
    elif document:
      documents.append(document)
      document = []
    megabytes = (len(line.encode()) + 1) / 1e6
    progress.add(megabytes, lines=1, tokens=len(segment))
  if document:
    documents.append(document)
  progress.add(0, documents=len(documents), sentences=sum(map(len, documents)))
  return documents


def _cut(segment: Segment, longest: int) -> list[Segment]:
  return [
    segment[start : start + longest]
    for start in range(0, len(segment), longest)
  ]
