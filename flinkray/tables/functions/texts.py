"""Functions of texts and bytes."""

from __future__ import annotations

from flinkray.tables.functions.parameters import (
    ANYTHING,
    AS_BIGINT,
    AS_INT,
    BOOLEAN_,
    SYMBOL,
    TEXT,
    TEXT_OR_BYTES,
    always,
    meeting,
    of_argument,
)
from flinkray.tables.functions.signatures import Function, Nullability, Parameter, ResultOf, TypedCall
from flinkray.tables.types.logical import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    BYTE_STRINGS,
    BYTES,
    CHAR,
    INT,
    INTEGERS,
    MAP,
    STRING,
    TEXTS,
    VARCHAR,
    LengthType,
    LogicalType,
    TypeRoot,
)

_BYTES = Parameter("bytes", BYTE_STRINGS, BYTES)
_SEPARATOR = Parameter("a text, or the code of a character", TEXTS | INTEGERS)


def _varying(place: int) -> ResultOf:
    def result(call: TypedCall) -> LogicalType:
        text = call.types[place]
        if not isinstance(text, LengthType):
            return STRING
        return VARCHAR(text.length) if text.kind in (TypeRoot.CHAR, TypeRoot.VARCHAR) else BYTES

    return result


def _overlaid(call: TypedCall) -> LogicalType:
    text, other = call.types[:2]
    assert isinstance(text, LengthType)
    assert isinstance(other, LengthType)
    return VARCHAR(min(STRING.length, text.length + other.length))


def _chosen(call: TypedCall) -> LogicalType:
    return meeting(call.types[1:])


def _translated(call: TypedCall) -> LogicalType:
    return STRING.with_nullability(call.types[0].nullable)


_CHECKS = ("IS_ALPHA", "IS_DIGIT", "IS_DECIMAL")
TEXT_FUNCTIONS = (
    *(Function(name, (TEXT,), always(BOOLEAN), Nullability.NEVER) for name in _CHECKS),
    Function("CONCAT", (TEXT,), always(STRING), repeats=1),
    Function("CONCAT_WS", (TEXT, TEXT), always(STRING), repeats=1),
    Function("SUBSTRING", (TEXT, AS_INT, AS_INT), _varying(0), Nullability.ALWAYS, optional=1, synonyms=("SUBSTR",)),
    Function("LEFT", (TEXT, AS_INT), _varying(0), Nullability.ALWAYS),
    Function("RIGHT", (TEXT, AS_INT), _varying(0), Nullability.ALWAYS),
    Function("POSITION", (TEXT, TEXT), always(INT)),
    Function("LOCATE", (TEXT, TEXT, AS_INT), always(INT), optional=1),
    Function("INSTR", (TEXT, TEXT, AS_INT, AS_INT), always(INT), optional=2),
    Function("TRIM", (SYMBOL, TEXT, TEXT), _varying(2)),
    Function("LTRIM", (TEXT, TEXT), _varying(0), optional=1),
    Function("RTRIM", (TEXT, TEXT), _varying(0), optional=1),
    Function("BTRIM", (TEXT, TEXT), always(STRING), optional=1),
    Function("UPPER", (TEXT,), of_argument(0)),
    Function("LOWER", (TEXT,), of_argument(0)),
    Function("INITCAP", (TEXT,), of_argument(0)),
    Function("LPAD", (TEXT, AS_INT, TEXT), always(STRING)),
    Function("RPAD", (TEXT, AS_INT, TEXT), always(STRING)),
    Function("REPLACE", (TEXT, TEXT, TEXT), always(STRING)),
    Function("REGEXP", (TEXT, TEXT), always(BOOLEAN)),
    Function("REGEXP_REPLACE", (TEXT, TEXT, TEXT), always(STRING)),
    Function("REGEXP_EXTRACT", (TEXT, TEXT, AS_INT), always(STRING), Nullability.ALWAYS, optional=1),
    Function("REGEXP_EXTRACT_ALL", (TEXT, TEXT, AS_INT), always(ARRAY(STRING)), Nullability.ALWAYS, optional=1),
    Function("REGEXP_COUNT", (TEXT, TEXT), always(INT), Nullability.ALWAYS),
    Function("REGEXP_INSTR", (TEXT, TEXT), always(INT), Nullability.ALWAYS),
    Function("REGEXP_SUBSTR", (TEXT, TEXT), always(STRING), Nullability.ALWAYS),
    Function("SPLIT_INDEX", (TEXT, _SEPARATOR, AS_INT), always(STRING), Nullability.ALWAYS),
    Function("SPLIT", (TEXT, TEXT), always(ARRAY(STRING))),
    Function("STARTSWITH", (TEXT_OR_BYTES, TEXT_OR_BYTES), always(BOOLEAN)),
    Function("ENDSWITH", (TEXT_OR_BYTES, TEXT_OR_BYTES), always(BOOLEAN)),
    Function("REVERSE", (TEXT,), always(STRING), Nullability.ALWAYS),
    Function("CHAR_LENGTH", (TEXT,), always(INT), synonyms=("CHARACTER_LENGTH",)),
    Function("OVERLAY", (TEXT, TEXT, AS_INT, AS_INT), _overlaid, optional=1),
    Function("REPEAT", (TEXT, AS_INT), always(STRING)),
    Function("TRANSLATE", (TEXT, TEXT, TEXT), _translated, Nullability.AS_INFERRED),
    Function("PRINTF", (TEXT, ANYTHING), always(STRING), Nullability.ALWAYS, optional=1, repeats=1),
    Function("INET_ATON", (TEXT,), always(BIGINT), Nullability.ALWAYS),
    Function("INET_NTOA", (AS_BIGINT,), always(STRING), Nullability.ALWAYS),
    Function("ELT", (AS_INT, TEXT_OR_BYTES), _chosen, Nullability.ALWAYS, repeats=1),
    Function("ASCII", (TEXT,), always(INT)),
    Function("CHR", (AS_BIGINT,), always(STRING), Nullability.ALWAYS),
    Function("MD5", (TEXT,), always(CHAR(32))),
    Function("SHA1", (TEXT,), always(CHAR(40))),
    Function("SHA224", (TEXT,), always(CHAR(56))),
    Function("SHA256", (TEXT,), always(CHAR(64))),
    Function("SHA384", (TEXT,), always(CHAR(96))),
    Function("SHA512", (TEXT,), always(CHAR(128))),
    Function("SHA2", (TEXT, AS_INT), always(VARCHAR(128))),
    Function("TO_BASE64", (TEXT_OR_BYTES,), always(STRING)),
    Function("FROM_BASE64", (TEXT,), always(STRING)),
    Function("ENCODE", (TEXT, TEXT), always(BYTES)),
    Function("DECODE", (_BYTES, TEXT), always(STRING)),
    Function("STR_TO_MAP", (TEXT, TEXT, TEXT), always(MAP(STRING, STRING)), Nullability.ALWAYS, optional=2),
    Function("PARSE_URL", (TEXT, TEXT, TEXT), always(STRING), Nullability.ALWAYS, optional=1),
    Function("URL_ENCODE", (TEXT,), always(STRING), Nullability.ALWAYS),
    Function("URL_DECODE", (TEXT,), always(STRING), Nullability.ALWAYS),
    Function("TYPEOF", (ANYTHING, BOOLEAN_), always(STRING), Nullability.ALWAYS, optional=1),
)
