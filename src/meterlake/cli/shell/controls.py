"""Control characters, made harmless for terminals."""

from typing import Final

# What others wrote must not steer the terminal: controls but tab and newline, and directions.
CONTROLS: Final = {
    code: f"\\u{code:04x}"
    for code in (
        *range(9),
        *range(11, 32),
        *range(127, 160),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    )
}
