"""A text is split into words as in tag files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.ner.answers import split_words

# A text, then its words with blanks between them.
TEXTS = """
In New York, where Oak's boss (45) works.
In New York , where Oak 's boss ( 45 ) works .
Ann O'Neal, the German-born writer, didn't pay $3.5 million; 5%!
Ann O'Neal , the German-born writer , did n't pay $ 3.5 million ; 5% !
MR. LEE of Oak Inc. met J. R. Ray on 12/5/99, in St. Louis.
MR. LEE of Oak Inc. met J. R. Ray on 12/5/99 , in St. Louis .
A U.S.-based Ph.D. student, e.g. Bo, left at 6:30 p.m., etc.
A U.S.-based Ph.D. student , e.g. Bo , left at 6:30 p.m. , etc .
He said no. She and I. Ann left Oak Inc.
He said no . She and I . Ann left Oak Inc .
The "Sun" wrote: 'I can't' -- the workers' strike...
The " Sun " wrote : ' I ca n't ' -- the workers ' strike ...
@ann_lee mailed Bob.Lee+x@mail.example.org about #oslo and #1.
@ann_lee mailed Bob.Lee+x@mail.example.org about #oslo and # 1 .
See http://example.org/a?b=c, www.example.org/x. AT&T's C++; Node.js.
See http://example.org/a?b=c , www.example.org/x . AT&T 's C++ ; Node.js .
1990–1999, 1,000 and/or 2 000 €, _Emma_ (z.B. Köln-Ehrenfeld).
1990–1999 , 1,000 and / or 2 000 € , _ Emma _ ( z.B. Köln-Ehrenfeld ) .
""".strip().split("\n")
OTHERS = {
  "王小明在东京读书。": "王 小 明 在 东 京 读 书 。",
  "東京タワー、3階": "東 京 タワー 、 3 階",
  "김철수는 서울에 산다.": "김철수는 서울에 산다 .",
  "राम दिल्ली गया।": "राम दिल्ली गया ।",
  "Ann😀 met 👩‍👩‍👧, 🇩🇪❤️ and Bo™!": "Ann 😀 met 👩‍👩‍👧 , 🇩🇪❤️ and Bo ™ !",
  "Zoe\u0301, É. Zola\u3000and\u00a0José": "Zoe\u0301 , É. Zola and José",
  "She didn’t, Oak’s": "She did n’t , Oak ’s",
  " \t\r\n\u2028": "",
  "": "",
}


def _split(text):
  return [text[begin:end] for begin, end in split_words(text)[1]]


WORDS = dict(zip(TEXTS[::2], TEXTS[1::2], strict=True)) | OTHERS


@pytest.mark.parametrize(("text", "expected"), WORDS.items())
def test_a_text_is_split_into_words_as_in_tag_files(text, expected):
  assert _split(text) == expected.split(" " if expected else None)


_TEXT = st.one_of(
  st.text(max_size=20),
  st.text("aB9 .,'’-@#&:/$%€王。_ntʰé\u0301\u200b\u2028\0\n😀🇩", max_size=30),
)


@given(_TEXT)
def test_split_words_covers_all_characters_except_blanks(text):
  same, spans = split_words(text)
  assert same == text
  covered = [i for begin, end in spans for i in range(begin, end)]
  assert all(begin < end for begin, end in spans)
  assert covered == [i for i, c in enumerate(text) if not c.isspace()]


@given(st.lists(st.text(min_size=1)))
def test_split_words_keeps_the_words_of_a_list(texts):
  joined, spans = split_words(texts)
  assert joined == " ".join(texts)
  assert [joined[begin:end] for begin, end in spans] == texts


@pytest.mark.parametrize("part", ["a", "!", " ", "a.", "a@", "Mr. ", "http://"])
def test_the_time_of_a_split_grows_linearly_with_the_length(part):
  text = part * 100_000  # quadratic time would take hours
  assert "".join(_split(text)) == text.replace(" ", "")
