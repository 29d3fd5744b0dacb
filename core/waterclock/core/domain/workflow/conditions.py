"""Paths and conditions: what may stand between `{{` and `}}`, and in a node's `condition`.

    nodes.fetch.output.rows > 0 and parameters.mode in ["full", "delta"]

Values are JSON. There are paths, literals, comparisons, `in`, `and`, `or`, `not` and parentheses, and nothing that
could loop, call or reach beyond the values it is given. A dash belongs to a name, as it may in a node's id.

What goes wrong with a node before anything of it runs.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from waterclock.proto.values import MAX_DIGITS

P = ParamSpec("P")
T = TypeVar("T")


class Unusable(Exception):
    """A template, a condition or a list to expand cannot be used; the message says why."""


def failing_alone(function: Callable[P, T]) -> Callable[P, T]:
    """Whatever goes wrong in what a user wrote is that user's: it raises Unusable, which fails one run. Any other error
    would end the partition's owner, and its successor would meet the same text."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
            raise Unusable(f"{type(error).__name__}: {error}"[:_LONGEST_REASON]) from error

    return guarded


ROOTS = ("nodes", "parameters", "scheduled_time", "epoch", "run_id", "item", "index")

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?![\w-]))"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+|\[-?\d+\])*)"
    r"|(?P<sign>==|!=|<=|>=|<|>|\(|\)|\[|\]|,|&&|\|\||!)"
    r"|(?P<open>\{\{)|(?P<close>\}\}))",
    re.ASCII,
)
_QUOTED = re.compile(r"\s*\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+|\[-?\d+\])*)\s*\}\}\s*", re.ASCII)
"""A path in quotes, as in `'{{ parameters.mode }}' == 'full'`."""
_STEP = re.compile(r"\.([\w-]+)|\[(-?\d+)\]", re.ASCII)
_WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_SYNONYMS = {"&&": "and", "||": "or", "!": "not", "{{": "(", "}}": ")"}
_DEEPEST = 50
_INDEX_DIGITS = 9
_LONGEST_REASON = 300
MAX_FILLED_BYTES = 4 << 20
"""What the values that fill the templates of one run may amount to: as much as a whole definition may have."""

_encode = msgspec.json.Encoder().encode

Scope = Mapping[str, Any]
Term = Callable[[Scope], Any]


class Path(Struct, frozen=True):
    """`nodes.fetch.output.rows[0]`"""

    text: str
    root: str
    steps: tuple[str | int, ...]

    def find(self, scope: Scope) -> Any:
        if self.root not in scope:
            raise Unusable(f"{self.text[:80]}: there is no {self.root[:80]} here")
        value = scope[self.root]
        for step in self.steps:
            value = _inside(value, step, self.text)
        return value


def path_of(text: str) -> Path:
    """Raises Unusable for an index that no list has."""
    root = re.split(r"[.\[]", text, maxsplit=1)[0]
    steps = tuple(
        found[1] if found[1] is not None else _index(found[2]) for found in _STEP.finditer(text, len(root))
    )
    return Path(text, root, steps)


def _index(digits: str) -> int:
    if len(digits) > _INDEX_DIGITS:
        raise Unusable(f"[{digits[:20]}…]: no list has so many items")
    return int(digits)


def _inside(value: Any, step: str | int, whole: str) -> Any:
    match value:
        case dict() if str(step) in value:
            return value[str(step)]
        case list() if isinstance(step, int) or (step.isdigit() and len(step) <= _INDEX_DIGITS):
            if -len(value) <= int(step) < len(value):
                return value[int(step)]
    raise Unusable(f"{whole[:80]}: there is no {str(step)[:80]}")


class FilledScope(dict[str, Any]):
    """A scope for one run's templates: it counts what it gives out, since a short text may name a large value often."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.gave_structure = False
        self._left = MAX_FILLED_BYTES

    def count(self, value: Any) -> None:
        if isinstance(value, str):
            self._left -= len(value)
        elif isinstance(value, dict | list):
            self.gave_structure = True
            self._left -= len(_encode(value))
        if self._left < 0:
            raise Unusable(f"its templates come to more than {MAX_FILLED_BYTES} bytes")


class Expression(Struct, frozen=True):
    term: Term
    paths: tuple[Path, ...]

    @failing_alone
    def value(self, scope: Scope) -> Any:
        return self.term(scope)

    @failing_alone
    def holds(self, scope: Scope) -> bool:
        return bool(self.term(scope))


@lru_cache(maxsize=4096)
@failing_alone
def expression_of(text: str) -> Expression:
    """Raises Unusable with what is wrong with it."""
    parser = _Parser(text)
    term = parser.whole()
    return Expression(term, tuple(parser.paths))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self.paths: list[Path] = []

    def whole(self) -> Term:
        term = self._either()
        if self._at < len(self._tokens):
            raise Unusable(f"{self._text!r}: did not expect {self._tokens[self._at][1]}")
        return term

    def _either(self) -> Term:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unusable(f"{self._text[:40]!r}…: is nested too deeply")
        terms = [self._both()]
        while self._take("or"):
            terms.append(self._both())
        self._depth -= 1
        return terms[0] if len(terms) == 1 else lambda scope: any(term(scope) for term in terms)

    def _both(self) -> Term:
        terms = [self._negated()]
        while self._take("and"):
            terms.append(self._negated())
        return terms[0] if len(terms) == 1 else lambda scope: all(term(scope) for term in terms)

    def _negated(self) -> Term:
        negations = 0
        while self._take("not"):
            negations += 1
        term = self._compared()
        return term if negations % 2 == 0 else lambda scope: not term(scope)

    def _compared(self) -> Term:
        left = self._single()
        for sign in ("==", "!=", "<=", ">=", "<", ">", "in"):
            if self._take(sign):
                return _comparison(left, sign, self._single(), self._text)
        if self._peek() == "not" and self._peek(1) == "in":
            self._at += 2
            inside = _comparison(left, "in", self._single(), self._text)
            return lambda scope: not inside(scope)
        return left

    def _single(self) -> Term:
        if self._at == len(self._tokens):
            raise Unusable(f"{self._text!r}: ends too early")
        kind, text = self._tokens[self._at]
        self._at += 1
        match kind:
            case "number":
                number = _number(text)
                return lambda scope: number
            case "text" if inner := _QUOTED.fullmatch(text[1:-1]):
                return _as_text(self._path(inner[1]))
            case "text":
                said = re.sub(r"\\(.)", r"\1", text[1:-1])
                return lambda scope: said
            case "name" if text in _WORDS:
                word = _WORDS[text]
                return lambda scope: word
            case "name" if text not in ("and", "or", "not", "in"):
                return self._path(text).find
        if text == "(":
            term = self._either()
            self._expect(")")
            return term
        if text == "[":
            return self._list()
        raise Unusable(f"{self._text!r}: did not expect {text}")

    def _path(self, text: str) -> Path:
        path = path_of(text)
        if path.root not in ROOTS:
            raise Unusable(f"{text}: there is no {path.root}; there are {', '.join(ROOTS)}")
        self.paths.append(path)
        return path

    def _list(self) -> Term:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unusable(f"{self._text[:40]!r}…: is nested too deeply")
        terms: list[Term] = []
        while not self._take("]"):
            if terms:
                self._expect(",")
            terms.append(self._single())
        self._depth -= 1
        return lambda scope: [term(scope) for term in terms]

    def _peek(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) and self._tokens[at][0] != "text" else None

    def _take(self, text: str) -> bool:
        if self._peek() != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise Unusable(f"{self._text!r}: expected {text}")


def _number(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise Unusable(f"{text[:20]}…: a number of more than {MAX_DIGITS} digits")
    return float(text) if "." in text else int(text)


def _as_text(path: Path) -> Term:
    return lambda scope: written(path.find(scope))


def written(value: Any) -> str:
    """A value within text: JSON, unless it is text."""
    return value if isinstance(value, str) else _encode(value).decode()


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, text = 0, text.strip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise Unusable(f"{text!r}: did not expect {text[at:].strip()[:10]}")
        said = token[token.lastgroup or 0]
        found.append((token.lastgroup or "", _SYNONYMS.get(said, said)))
        at = token.end()
    return found


def _comparison(left: Term, sign: str, right: Term, text: str) -> Term:
    def compare(scope: Scope) -> bool:
        one, other = left(scope), right(scope)
        try:
            match sign:
                case "==":
                    return bool(one == other)
                case "!=":
                    return bool(one != other)
                case "<":
                    return bool(one < other)
                case "<=":
                    return bool(one <= other)
                case ">":
                    return bool(one > other)
                case ">=":
                    return bool(one >= other)
                case _:
                    return one in other
        except TypeError:
            raise Unusable(
                f"{text}: {_shown(one)} and {_shown(other)} cannot be compared by {sign}"
            ) from None

    return compare


def _shown(value: Any) -> str:
    return f"{value[:40]!r}" if isinstance(value, str) else _encode(value)[:40].decode(errors="replace")
