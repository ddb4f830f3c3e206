"""Globs against those of Hadoop, Python and the shell's rules, and as listings of directories."""

from __future__ import annotations

import glob
import itertools
import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill.errors import TidemillError
from tidemill.sources.files import listing
from tidemill.sources.globs import Glob, escaped, hidden, parse_glob
from tidemill.sources.objects.listing import before

NAMES = "ab-^!,}.Ž"


def random_name(chance: random.Random, signs: str = NAMES) -> str:
    return "".join(chance.choice(signs) for _ in range(chance.randint(1, 5)))


def random_pattern(chance: random.Random, depth: int = 0) -> str:
    """A glob of one name that Hadoop understands as it is meant here: its braces do not know escapes in brackets."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(9)
        if kind < 3:
            parts.append(chance.choice("ab.Ž-"))
        elif kind == 3:
            parts.append("?")
        elif kind == 4 and (not parts or parts[-1] != "*"):
            parts.append("*")
        elif kind == 5:
            inner = chance.choice(["ab", "a-b", "b-", "^a" if chance.random() < 0.3 else "a", ".-b", "Ža"])
            parts.append(f"[{chance.choice(['', '!', '^']) if inner[0] != '^' else ''}{inner}]")
        elif kind == 6 and not depth:
            choices = [random_pattern(chance, 1) for _ in range(chance.randint(1, 3))]
            parts.append("{" + ",".join(choices) + "}")
        elif kind == 7:
            parts.append("\\" + chance.choice("*?[{}\\,"))
        else:
            parts.append(chance.choice("!^") if depth == 0 else "a")
    return re.sub(r"\*\**", "*", "".join(parts).replace("\\*", "\0")).replace("\0", "\\*")


def test_names_as_hadoop_matches_them(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    assert spark._jvm is not None
    hadoop = spark._jvm.org.apache.hadoop.fs.GlobPattern
    matched = 0
    for _ in range(400):
        pattern = random_pattern(chance)
        try:
            ours, theirs = parse_glob(pattern), hadoop(pattern)
        except TidemillError as error:
            assert "** beside" in error.got and ("{" in pattern or "**" in pattern)
            continue
        for name in {random_name(chance) for _ in range(6)} | {like(pattern, chance)}:
            assert ours.matches(name) == theirs.matches(name), (pattern, name)
            matched += ours.matches(name)
    assert matched > 200


def like(pattern: str, chance: random.Random) -> str:
    """A name that may well match."""
    text = re.sub(r"\{([^{},]*)[^{}]*\}", r"\1", pattern)
    text = re.sub(r"\[[!^]?(.)[^\]]*\]", r"\1", text)
    return re.sub(r"\\(.)", r"\1", text.replace("?", chance.choice("ab"))).replace("*", random_name(chance)) or "a"


def test_paths_as_python_lists_them(tmp_path: Path, seed: int) -> None:
    """With ``**``; what is listed is also what matches, and nothing else of the tree is."""
    chance = random.Random(seed)
    for _ in range(40):
        path = tmp_path / "/".join(chance.choice(["a", "b", "ab", "c.x"]) for _ in range(chance.randint(1, 4)))
        if not any(p.is_file() for p in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    found = 0
    for _ in range(300):
        parts = [chance.choice(["a", "*", "**", "?", "a*", "*b", "[ab]", "[!a]*", "c.x"]) for _ in range(4)]
        text = "/".join(parts[: chance.randint(1, 4)])
        expected = sorted(p for p in set(glob.glob(text, root_dir=tmp_path, recursive=True)) if p in files)
        ours = parse_glob(text)
        assert [f for f in files if ours.matches(f)] == expected, text
        if "**" in text or "*" in text or "?" in text or "[" in text:
            listed = [str(Path(f.path).relative_to(tmp_path)) for f in listing(f"{escaped(str(tmp_path))}/{text}")]
            assert listed == expected, text
        found += len(expected)
    assert found > 100


def test_braces_are_all_their_choices(seed: int) -> None:
    """As the shell expands them, also across slashes."""
    chance = random.Random(seed)
    paths = ["/".join(p) for n in (1, 2, 3) for p in itertools.product(["a", "b", "ab"], repeat=n)]
    for _ in range(200):
        left = [chance.choice(["a", "a/b", "*", "b/*", ""]) for _ in range(chance.randint(1, 3))]
        right = [chance.choice(["b", "/a", "/*", ""]) for _ in range(2)]
        text = "{" + ",".join(left) + "}{" + right[0] + ",{" + right[1] + ",b}}"
        choices = [parse_glob(f"{a}{b}") for a in left for b in (*right, "b") if "**" not in f"{a}{b}"]
        if any("**" in f"{a}{b}" for a in left for b in (*right, "b")):
            continue
        assert [p for p in paths if parse_glob(text).matches(p)] == [
            p for p in paths if any(c.matches(p) for c in choices)
        ], text


@pytest.mark.parametrize(
    "text", ["[", "[a", "[!]", "a[b/c]", "{a", "{a,{b}", "a**", "**a/b", "a\\", "[b-a]", "[[:alpha:]]", "{a,[}"]
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(TidemillError, match="TM5035") as caught:
        parse_glob(text)
    assert caught.value.got.startswith(text)


def test_too_many_choices_are_refused() -> None:
    assert len(parse_glob("{a,b}" * 10).alternatives) == 1024
    with pytest.raises(TidemillError, match="TM5035"):
        parse_glob("{a,b}" * 11)


def test_many_stars_take_no_longer_than_few() -> None:
    assert not parse_glob("*a" * 30 + "b").matches("a" * 200)
    assert parse_glob("*a" * 30 + "*").matches("a" * 200)


@pytest.mark.parametrize("text", ["a*b", "[a]", "{a,b}", "a\\b", "**", "?"])
def test_escaped(text: str) -> None:
    assert parse_glob(escaped(text)).literal == text
    assert parse_glob(escaped(text)).matches(text) and not parse_glob(escaped(text)).matches("a")


@pytest.mark.parametrize(
    ("text", "prefix"),
    [("a/b*/c", "a/b"), ("a/b/c", "a/b/c"), ("a/?b", "a/"), ("**/x", ""), ("a/**", "a/"), ("a\\*b*", "a*b"), ("*", "")],
)
def test_literal_prefix(text: str, prefix: str) -> None:
    assert parse_glob(text).alternatives[0].prefix == prefix


def test_nothing_of_a_prefix_comes_before_it(seed: int) -> None:
    chance = random.Random(seed)
    signs = "a0/.!\x7f\x80\xa0\ud7ff\ue000\U00010000~"
    for _ in range(500):
        prefix = random_name(chance, signs)
        start = before(prefix)
        assert start.encode() < prefix.encode() and "/" not in start[len(prefix) - 1 :]
        start.encode("utf-8")


def test_dead_directories_have_nothing_that_is_meant(seed: int) -> None:
    chance = random.Random(seed)
    paths = ["/".join(p) for n in (1, 2, 3, 4) for p in itertools.product(["a", "b", "_c"], repeat=n)]
    dead = 0
    for _ in range(200):
        parts = [chance.choice(["a", "*", "**", "?", "b*", "_c"]) for _ in range(chance.randint(1, 4))]
        (alternative,) = parse_glob("/".join(parts)).alternatives
        meant = [p for p in paths if alternative.matches(p) and not alternative.hides(p)]
        for path in paths:
            directory = alternative.dead_directory(path)
            if directory is not None:
                dead += 1
                assert path.startswith(directory) and not any(p.startswith(directory) for p in meant), (parts, path)
    assert dead > 1000


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        (".a", True),
        ("_a", True),
        ("_a=1", False),
        ("a._COPYING_", True),
        ("a.tmp", False),
        ("a_", False),
        ("a.", False),
    ],
)
def test_hidden_as_in_spark(name: str, is_hidden: bool) -> None:
    assert hidden(name) == is_hidden


def test_links_that_lead_back_are_no_endless_listing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_text("")
    (tmp_path / "d" / "up").symlink_to(tmp_path)
    found: list[str] = [f.path for f in listing(f"{tmp_path}/**")]
    assert f"{tmp_path}/d/a" in found and len(found) < 5


def test_below(tmp_path: Path) -> None:
    deep: Glob = parse_glob("a*").below()
    assert [p for p in ("a", "ab/c", "ab/c/d", "b/a") if deep.matches(p)] == ["a", "ab/c", "ab/c/d"]
