"""The report's sections, each from the results it needs; a section without results is left out."""

from bench.report.comparison import ahead, entrants, missing
from bench.report.tables import NOTHING, milliseconds, number, table
from bench.report.targets import TARGETS
from bench.result import Result
from bench.results import Results

_DRAWN = ("scheduler", "executor", "projector", "api")


def targets(results: Results) -> str:
    rows = []
    for target in TARGETS:
        value = target.read(results)
        rows.append(
            (
                target.what,
                f"{target.wish} {target.show(target.aim)}",
                target.show(value),
                target.verdict(value),
            )
        )
    return "## What it must reach\n\n" + table(("", "asked", "measured", ""), rows)


def fastest(results: Results) -> str:
    found = sorted(results.of("fastest"), key=lambda result: -(result.number("rate") or 0.0))
    if not found:
        return ""
    ours = results.number("fastest/waterclock", "rate")
    rows = [
        (
            f"**{result.figures['title']}**"
            if result.name == "fastest/waterclock"
            else f"{result.figures['title']} ({result.figures.get('versions', '')})",
            number(result.number("rate"), "/s"),
            str(result.figures["rounds"]),
            number((result.number("rate") or 0.0) / ours, "×") if ours else NOTHING,
            number(result.cpu.get("total"), " ms"),
            milliseconds(result.number("lag_p99_ms")),
            str(result.figures["remark"]),
        )
        for result in found
    ]
    text = (
        "No-op jobs with 200 bytes of payload, submitted in bulk; in turn on the same machine, the median of the "
        "rounds. graphile-worker runs twice with a local queue of 500, PGQueuer twice with batches of 200, and ours as "
        "`waterclock up` starts it. Who keeps what is not the same: a peer's job has ended when it has run, ours when "
        "its history is in Postgres and the log is on disk."
    )
    heads = ("", "throughput", "rounds", "to ours", "CPU for a job", "5,000 at once, lag p99", "it")
    return f"## Beside the fastest\n\n{text}\n\n{table(heads, rows)}"


def peers(results: Results) -> str:
    if not results.of("peer"):
        return ""
    rows = [
        (
            f"**{each.title}**" if each.ours else f"{each.title} ({each.versions})",
            number(each.rate, "/s"),
            number(each.cpu, " ms"),
            milliseconds(each.lag_p99),
            each.server,
            each.remark,
        )
        for each in entrants(results)
    ]
    parts = [
        "## Beside what people use today",
        "No-op jobs with 200 bytes of payload, submitted in bulk where the peer can. Throughput counts from the "
        "first submit until the last job has ended (ours: until it is in Postgres, too). CPU is that of all "
        "processes, client and servers included, for one job. The lag is that of 5,000 jobs due at one instant, "
        "stored before it.",
        table(("", "throughput", "CPU for a job", "lag p99", "on", "keeps"), rows),
        "![throughput, CPU and lag of all](benchmarks/peers.svg)",
        "### Where a peer wins",
        "\n".join(f"- {sentence}" for sentence in ahead(results)) or "In none of the three, in this run.",
    ]
    if absent := missing(results):
        parts += ["### Not measured", "\n".join(f"- {title}: {why}" for title, why in absent)]
    return "\n\n".join(parts)


def start_lag(results: Results) -> str:
    found = results.of("start_lag")
    if not found:
        return ""
    rows = [
        (
            _load(result),
            number(result.number("runs")),
            *(milliseconds(result.figures[each]) for each in ("lag_p50_ms", "lag_p99_ms", "lag_max_ms")),
            _total(result),
        )
        for result in found
    ]
    text = "From the scheduled time to the start of the handler, as `job_runs` has both."
    heads = ("load", "runs", "p50", "p99", "max", "CPU s / 1,000")
    return f"## Start lag\n\n{text}\n\n{table(heads, rows)}\n\n![distribution of start lag](benchmarks/start_lag.svg)"


def stored(results: Results) -> str:
    found = sorted(results.of("stored"), key=lambda result: result.number("schedules") or 0)
    if not found:
        return ""
    rows = [
        (
            number(result.number("schedules")),
            number(result.number("stored_rate"), "/s"),
            milliseconds(result.figures["lag_p50_ms"]),
            milliseconds(result.figures["lag_p99_ms"]),
            number(result.number("scheduler_mb"), " MB"),
            number(result.number("scheduler_storing_mb"), " MB"),
            number(result.number("nats_mb"), " MB"),
            number(result.number("nats_restarted_mb"), " MB"),
            number(result.number("takeover_s"), " s"),
            number(result.number("restart_s"), " s"),
            number(result.number("log_disk_mb"), " MB"),
            number(result.number("postgres_disk_mb"), " MB"),
        )
        for result in found
    ]
    text = (
        "Recurring schedules that do not fire meanwhile; once the machine rests after storing them, 500 one-shots a "
        "second are due beside them for 20 s. Two schedulers: memory is that of the larger, at rest and at the most "
        "while storing; of nats-server it is that at rest, and after its restart. The takeover is the latest start of "
        "any run after `kill -9` of a scheduler, which is found dead after 1.5 s, and the restart the same after "
        "`kill -9` of nats-server."
    )
    heads = (
        *("stored", "stored at", "lag p50", "lag p99", "scheduler", "storing", "nats-server", "restarted"),
        *("takeover", "restart", "log on disk", "Postgres"),
    )
    picture = "![lag, memory and takeover](benchmarks/stored.svg)"
    return f"## Stored schedules\n\n{text}\n\n{table(heads, rows)}\n\n{picture}"


def rates(results: Results) -> str:
    rows = []
    for result in results.all:
        rate = result.number("rate")
        if rate is None or result.scenario in ("peer", "fastest"):
            continue
        rows.append((f"`{result.name}`", number(rate, "/s"), _total(result), _details(result)))
    if not rows:
        return ""
    return (
        "## Every rate\n\n"
        + table(("scenario", "rate", "CPU s / 1,000", "with"), rows)
        + "\n\n![CPU by process](benchmarks/cpu.svg)"
        + "\n\nWhere each spends it (`python -m bench.profile 60000 --flames`): "
        + ", ".join(f"[{each}](benchmarks/flames/{each}.svg)" for each in _DRAWN)
        + "."
    )


def floor(results: Results) -> str:
    always, relaxed = results.number("floor/always", "rate"), results.number("floor/default_2_min", "rate")
    ours = results.number("fire_rate", "rate")
    if not always:
        return ""
    lines = [
        "## The floor",
        "The messages of a fired run (queued frame, work, outcome frame, ack, reading it all) by the same client "
        f"without any logic: {number(always, '/s')} with every ack on disk, {number(relaxed, '/s')} with the server's "
        "default of syncing every two minutes.",
    ]
    if ours:
        lines.append(
            f"A fired run in waterclock, Postgres included: {number(ours, '/s')}, or {ours / always:.0%} of that."
        )
    durable, default = (
        results.number("durability/always", "rate"),
        results.number("durability/default_2_min", "rate"),
    )
    if durable and default:
        lines.append(
            f"The whole system with `sync_interval: always`: {number(durable, '/s')} in bulk; with the default: "
            f"{number(default, '/s')}. So durability costs {max(0.0, 1 - durable / default):.0%} of throughput. One "
            f"submit is answered in {milliseconds(results.number('durability/always', 'answer_p50_ms'))} against "
            f"{milliseconds(results.number('durability/default_2_min', 'answer_p50_ms'))} (p50)."
        )
    return "\n\n".join(lines)


def _load(result: Result) -> str:
    load = result.name.partition("/")[2].replace("_per_second", "/s").replace("_at_once", " at one instant")
    digits = load.split("/")[0].split(" ")[0]
    return load.replace(digits, f"{int(digits):,}", 1)


def _total(result: Result) -> str:
    total = result.cpu.get("total")
    return NOTHING if total is None else number(total)


def _details(result: Result) -> str:
    left = {
        key: value
        for key, value in result.figures.items()
        if key not in ("rate", "missing") and value is not None
    }
    lost = result.number("missing")
    if lost:
        left["missing"] = lost
    return ", ".join(f"{key.replace('_', ' ')} {number(value)}" for key, value in left.items())
