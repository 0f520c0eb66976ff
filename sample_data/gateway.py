"""The file of a system that was not made for us; `mappings/edge-gateway.yaml` reads it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from sample_data.usage import BERLIN, Measurement, Value, region, spread

ACCOUNTS: Final = ("nordwind-logistics", "castellan-security", "redwood-analytics")
HOURS: Final = 64


def rows(random: Random) -> list[dict[str, str]]:
    """The lines of the export by its own German column names; `-` stands for nothing."""
    start = datetime(2026, 10, 5, tzinfo=BERLIN)
    return [
        {
            "beleg": f"GW-{number:06}",
            "zeit": (start + timedelta(hours=number * 9)).astimezone(BERLIN).isoformat(" "),
            "kunde": random.choice(ACCOUNTS),
            "standort": region("edge", random),
            "abrufe": str(spread(random, 900, 0.8)),
            "gleichzeitig": "-" if random.random() < 0.2 else str(spread(random, 6, 0.5)),  # noqa: PLR2004
            **_model(random),
        }
        for number in range(1, HOURS + 1)
    ]


def _model(random: Random) -> dict[str, str]:
    if random.random() < 0.6:  # noqa: PLR2004
        return dict.fromkeys(("modell", "token_ein", "token_aus", "dauer_ms"), "")
    return {
        "modell": "larch-small",
        "token_ein": str(spread(random, 9000, 0.6)),
        "token_aus": str(spread(random, 1500, 0.6)),
        "dauer_ms": str(spread(random, 180, 0.3)),
    }


def measurements(export: list[dict[str, str]]) -> Iterator[Measurement]:
    """What the mapping makes of the lines: one or two measurements each."""
    for row in export:
        yield _measurement(
            "api_calls",
            0,
            row,
            {
                "what.endpoint": "edge",
                "metadata.api_key": "edge-gateway",
                "measure.calls": int(row["abrufe"]),
                "measure.concurrency": int(row["gleichzeitig"].replace("-", "1")),
            },
        )
        if row["modell"]:
            yield _measurement(
                "llm_tokens",
                1,
                row,
                {
                    "who.user": "edge",
                    "what.model": row["modell"],
                    "measure.input_tokens": int(row["token_ein"]),
                    "measure.output_tokens": int(row["token_aus"]),
                    "measure.latency_ms": int(row["dauer_ms"]),
                    "cost.inference": 0,
                },
            )


def _measurement(
    meter: str, part: int, row: dict[str, str], fields: dict[str, Value]
) -> Measurement:
    at = datetime.fromisoformat(row["zeit"]).astimezone(UTC)
    fields["where.region"] = row["standort"]
    return Measurement(meter, row["kunde"], f"{row['beleg']}.{part}", at, fields)
