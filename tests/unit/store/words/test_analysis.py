"""Words of texts: which texts share a term, where words stand, and what no text may do."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mongomem.errors import ConfigurationError
from mongomem.store.words import analysis
from mongomem.store.words.analysis import LOOKED_AT, _analyser, analyser_for
from mongomem.store.words.languages import STOP_WORDS
from mongomem.store.words.normal_forms import normalised
from mongomem.store.words.scripts import WORD
from mongomem.store.words.stems import snowball_languages

LANGUAGES = ["english", *sorted(snowball_languages() - {"english"})]


def terms(text: str, language: str = "english") -> list[str]:
    return [word.term for word in analyser_for(language).words(text)]


SHARED = [
    # language of the stems, one text, another, shared by default, shared by the language's own
    ("german", "Die Häuser am See", "mein haus", False, True),
    ("german", "Gitarrenunterricht", "Gitarren", True, False),
    ("german", "Straße", "STRASSE", True, True),
    ("french", "l’homme", "les hommes", True, True),
    ("french", "vous mangez", "je mangerai", False, True),
    ("french", "cafe\u0301", "Café", True, True),
    ("spanish", "las canciones", "una canción", False, True),
    ("spanish", "dos gatos", "mi gato", True, True),
    ("russian", "Она читает книги", "новая книга", False, True),
    ("russian", "путешествие", "путешествия", True, True),
    ("greek", "ΟΔΟΣ", "οδος", True, True),
    ("greek", "Αθήνα", "ΑΘΗΝΑ", False, True),
    ("turkish", "İstanbul'da", "istanbul", True, True),
    ("turkish", "IŞIK", "ışık", False, True),
    ("turkish", "kitaplar", "kitap", False, True),
    ("arabic", "مُدَرِّس", "مدرس", True, True),
    ("arabic", "الكتاب", "كتاب", False, True),
    ("arabic", "٢٠٢٣", "2023", True, True),
    ("hindi", "हिन्दी किताब", "किताब", True, True),
    ("hindi", "लड़कियाँ", "लड़की", False, True),
    ("hindi", "क\u094d\u200dष", "क\u094dष", True, True),
    ("persian", "می\u200cخواهم", "میخواهم", True, True),
    (None, "แมวกินปลา", "ปลาสด", True, None),
    (None, "ห้อง ๔๒", "42", True, None),
    (None, "我住在上海", "上海天气", True, None),
    (None, "iPhone手机", "新手机", True, None),
    (None, "東京に住んでいます", "東京タワー", True, None),
    (None, "猫が好き", "猫", True, None),
    (None, "ﾀﾞﾝｽ", "ダンス", True, None),
    (None, "サッカー", "Fußball", False, None),
    (None, "서울에서 살아요", "서울은", True, None),
    (None, "김철수는", "철수", True, None),
    (None, unicodedata.normalize("NFD", "대학교"), "대학", True, None),
    (None, "tiếng Việt", unicodedata.normalize("NFD", "Tiếng Việt"), True, None),
    (None, "má", "mà", False, None),
    (None, "שָׁלוֹם", "שלום", True, None),
    (None, "my recipes", "a recipe", True, None),
    (None, "visiting", "visited", True, None),
    (None, "Ｈｅｌｌｏ", "hello", True, None),
]


@pytest.mark.parametrize(("language", "one", "other", "by_default", "by_its_own"), SHARED)
def test_which_texts_share_a_term(
    language: str | None, one: str, other: str, by_default: bool, by_its_own: bool | None
) -> None:
    assert bool({*terms(one)} & {*terms(other)}) is by_default
    if language is not None:
        assert bool({*terms(one, language)} & {*terms(other, language)}) is by_its_own


SLICES = {
    "I’m at O'Brien's, don't ask": ["O", "Brien", "ask"],
    "When did John's sister call?": ["John", "sister", "call"],
    "snake_case, naïve_one": ["snake", "case", "naïve", "one"],
    "room A-113 on 2023-05-08, v1.2, 42!": ["room", "113", "2023", "05", "08", "v1", "2", "42"],
    "मैं हिन्दी": ["मैं", "हिन्दी"],
    "👩‍👩‍👧 ❤️ © … 🇩🇪": [],
    "2023年5月": ["2023", "年", "5", "月"],
    "東京タワーへ": ["東京", "タワ", "ワー", "へ"],
    "กำลัง": ["กำ", "ำลั", "ลัง"],
    "\u200fשלום\u200f abc": ["שלום", "abc"],
    "⑴ ½": ["⑴", "½"],
    "\ud800abc\udfff\x00def": ["abc", "def"],
}


@pytest.mark.parametrize("text", SLICES)
def test_where_words_stand(text: str) -> None:
    words = analyser_for("english").words(text)
    assert [text[word.start : word.end] for word in words] == SLICES[text]


TERMS = {
    "english-1": {
        "stopping parties making boxes tries hopefully": "stop part mak box tri hopefu",
        "excitedly running played cities misses": "excit run pla cit miss",
        "fizzing rolled went The string": "fizz roll went string",
        "1234567890 A-113 ⑴ İzmir café": "1234567890 113 1 izmir café",
        "Straße книгами 東京 서울에서": "strass книгам 東京 서울 울에 에서",
    },
    "german-1-snowball-3.1.1": {
        "Die Häuser und Straßenbahnen fuhren": "haus strassenbahn fuhr",
        "1990er durch Äpfel, running": "1990er apfel running",
    },
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_change_with_the_name_alone(name: str) -> None:
    """Stored terms are compared with new ones. Where this fails, raise `VERSION`, or name the new
    version of snowballstemmer.
    """
    analyser = analyser_for(name.partition("-")[0])
    assert analyser.name == name
    for text, expected in TERMS[name].items():
        assert [word.term for word in analyser.words(text)] == expected.split()


@pytest.mark.parametrize("language", sorted(STOP_WORDS))
def test_stop_words_are_left_out(language: str) -> None:
    assert language in LANGUAGES
    assert terms(STOP_WORDS[language], language) == []
    capitals = STOP_WORDS[language].replace("i", "İ" if language == "turkish" else "i").upper()
    assert terms(capitals, language) == []
    words = STOP_WORDS[language].split()
    assert len(words) == len(set(words)) >= 50


anything = st.text() | st.text(
    st.sampled_from(
        "aZé9_'’-. \t\u0301\u200d\u200c\u200f\x00\ud800İIıß猫が東ーﾀﾞ한ᄒ\u1161กิ४कि👩½⑴ﷺ"
    )
)


@given(anything)
def test_words_stand_in_the_text_one_behind_the_other(text: str) -> None:
    words = analyser_for("english").words(text)
    starts = [word.start for word in words]
    assert starts == sorted(set(starts))
    for word in words:
        assert 0 <= word.start < word.end <= len(text)
        assert 1 <= len(word.term) <= 18 * LOOKED_AT
        assert not any(letter.isspace() or "\ud800" <= letter <= "\udfff" for letter in word.term)
    assert words == analyser_for("english").words(text)


@given(anything, st.sampled_from(LANGUAGES))
def test_no_text_fails_and_a_cache_changes_nothing(text: str, language: str) -> None:
    words = analyser_for(language).words(text)
    made_anew = _analyser.__wrapped__(language)
    assert (made_anew.name, made_anew.words(text)) == (analyser_for(language).name, words)


@given(anything, anything)
def test_words_of_two_texts_are_those_of_each(one: str, other: str) -> None:
    assert terms(f"{one}\n{other}") == terms(one) + terms(other)


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "a ", "é", "a\u0301", "\u0301", "कि", "猫", "が猫", "ก\u0e34", "한", "1", "_", "é_"),
        *("\ud800", "\x00", "\u200d", "a\u200d", "\u0301\u0323", "a猫", "’s ", "👩‍👧"),
    ],
    ids=ascii,
)
def test_work_is_linear(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step scans a text once, whatever it holds, and spells a bounded part of a word."""
    scanned, spelled = Counter[str](), list[int]()

    class Counting:
        def __init__(self, name: str) -> None:
            self.name, self.pattern = name, getattr(analysis, name)

        def finditer(self, text: str, *span: int) -> Iterator[re.Match[str]]:
            start, end = span or (0, len(text))
            scanned[self.name] += end - start
            assert scanned[self.name] <= len(text)
            return self.pattern.finditer(text, *span)

    def spelling(word: str, language: str = "") -> str:
        spelled.append(len(word))
        return normalised(word, language)

    for name in ("ASCII_WORD", "WORD", "RUN", "CHARACTER"):
        monkeypatch.setattr(analysis, name, Counting(name))
    monkeypatch.setattr(analysis, "normalised", spelling)
    analysis._term_of_pair.cache_clear()
    analyser = _analyser.__wrapped__("english")
    for text in (unit * 100_000, "a" + unit * 100_000, "猫" + unit * 100_000):
        scanned.clear()
        words = analyser.words(text)
        assert max((len(word.term) for word in words), default=0) <= 18 * LOOKED_AT
        assert len(words) <= len(text)
    assert max(spelled, default=0) <= LOOKED_AT


def test_marks_are_those_of_unicode() -> None:
    """Every mark stays in its word, and punctuation does not."""
    inside = {
        letter
        for letter in map(chr, range(0x80, sys.maxunicode + 1))
        if WORD.fullmatch(f"a{letter}")
    }
    kinds = {letter: unicodedata.category(letter) for letter in map(chr, range(0x80, 0xFFFF))}
    marks = {letter for letter, kind in kinds.items() if kind[0] == "M"}
    if unicodedata.unidata_version.startswith("14."):  # a later Unicode has a few marks more
        assert marks - inside == set()
        assert {unicodedata.category(letter)[0] for letter in inside} & set("PSZ") == set()


def test_threads_share_an_analyser() -> None:
    text = " ".join(f"Haus{'er' * (n % 3)}{chr(97 + n % 26)}ungen" for n in range(300))
    expected = terms(text, "german")
    _analyser.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(terms, [text] * 16, ["german"] * 16))


@pytest.mark.parametrize("language", ["klingon", "", "English", None, 7, ["german"], "\ud800"])
def test_an_unknown_language_names_the_known_ones(language: object) -> None:
    with pytest.raises(ConfigurationError, match=r"english|language") as raised:
        analyser_for(language)  # type: ignore[arg-type]
    if isinstance(language, str) and language.isascii():
        assert "danish" in str(raised.value)


def test_without_the_extra_there_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    _analyser.cache_clear()
    assert terms("recipes") == ["recip"]
    with pytest.raises(ConfigurationError, match="stems"):
        analyser_for("german")
