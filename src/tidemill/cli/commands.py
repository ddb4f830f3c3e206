"""The ``tidemill`` command."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tidemill.cli.demo import demo
from tidemill.cli.ending import with_errors_told
from tidemill.cli.exchange import exchange
from tidemill.cli.query import output
from tidemill.config import Settings, described_settings
from tidemill.errors import TidemillError
from tidemill.serve.access.settings import ServerSettings

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

Root = Annotated[str, typer.Option("--root", help="Directory of the mill's state.")]
MaybeRoot = Annotated[
    str | None,
    typer.Option("--root", help="Directory of the mill's state; its server is asked, if it has one."),
]
ServerUrl = Annotated[
    str | None, typer.Option("--server", help="Address of a server; its token is that of TIDEMILL_TOKEN.")
]
Format = Annotated[str, typer.Option("--format", help="table, csv, json or arrow.")]
Master = Annotated[str | None, typer.Option("--master", help="Spark master, local[*] by default.")]
Mode = Annotated[
    str | None,
    typer.Option("--mode", help="jobs: an epoch is a Spark job; resident: it runs in tasks that stay; auto: as fits."),
]


def _assignments(mode: str | None, given: list[str] | None) -> list[str]:
    """What ``--mode`` and ``--set`` assign."""
    return [*([] if mode is None else [f"mode={mode}"]), *(given or ())]


def _settings_help(*declared: type[Any]) -> str:
    """The settings of ``--set`` that dataclasses declare, a paragraph each."""
    found = ["Settings for --set, with their defaults:"]
    for name, default, text in (row for d in declared for row in described_settings(d)):
        given = f"{name}.KEY=VALUE" if name == "spark_conf" else f"{name}={default}"
        found.append(f"  {given}  {text}.")
    return "\n\n".join([*found, "docs/settings.md says more about each."])


@app.command(epilog=_settings_help(Settings))
def run(
    pipeline: Annotated[Path, typer.Argument(help="SQL script or Python file that declares tables and views.")],
    root: Root,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there, and stdin:// to its end, checkpoint and exit.")
    ] = False,
    seconds: Annotated[float | None, typer.Option("--for", min=0, help="Run for this many seconds.")] = None,
    master: Master = None,
    mode: Mode = None,
    epoch_bytes: Annotated[str | None, typer.Option("--epoch-bytes", help="Input per epoch, e.g. 4m.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. memory_bytes=2g; repeatable. See below."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="One line of JSON an epoch, with the time, on standard error.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would be added, replaced and dropped.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace views whose query has changed.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Drop views that the script does not declare.")] = False,
) -> None:
    """Keep the views of a script or pipeline fresh.

    The script is compared with what the root has; all that it changes is carried out, or nothing.
    """
    from tidemill.cli.run.java_start import begin_java
    from tidemill.cli.run.settings import settings

    check_pipeline(pipeline)
    chosen = begin_java(settings(master, epoch_bytes, _assignments(mode, given)), ml=pipeline.suffix == ".py")
    from tidemill.cli.run.progress_display import Display
    from tidemill.cli.run.running import create_from, open_mill, plan_script, run_mill, summary_of

    display = Display(log=log)
    with display.reporting():
        display.working("starting Spark")
        if plan:
            for line in plan_script(root, pipeline, chosen, may_replace=replace, may_drop=prune):
                typer.echo(line)
            return
        with open_mill(root, chosen) as mill:
            display.working("creating tables and views")
            changed = summary_of(create_from(mill, pipeline, may_replace=replace, may_drop=prune))
            if changed:
                display.say(changed)
            for stop in (signal.SIGINT, signal.SIGTERM):
                signal.signal(stop, display.stop)
            run_mill(mill, display, once=once, seconds=seconds)


@app.command(epilog=_settings_help(ServerSettings, Settings))
def serve(
    root: Root,
    pipeline: Annotated[
        Path | None, typer.Argument(help="SQL script or Python file whose tables and views are added first.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; beyond loopback it needs --tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of HTTP; 0 takes a free one.")] = 8320,
    flight_port: Annotated[
        int | None, typer.Option("--flight-port", min=0, max=65535, help="Of Arrow Flight; none by default.")
    ] = None,
    pg_port: Annotated[
        int | None, typer.Option("--pg-port", min=0, max=65535, help="Of PostgreSQL's protocol; none by default.")
    ] = None,
    tokens: Annotated[
        str, typer.Option("--tokens", help="File with a line `role token` each: read, write or admin.")
    ] = "",
    tls_certificate: Annotated[str, typer.Option("--tls-certificate", help="PEM file; with --tls-key.")] = "",
    tls_key: Annotated[str, typer.Option("--tls-key", help="PEM file.")] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="A name in the Host header that leads here; repeatable.")
    ] = None,
    requests_per_second: Annotated[
        int, typer.Option("--requests-per-second", min=0, help="Most of one address; 0 for no limit.")
    ] = 0,
    log_format: Annotated[str, typer.Option("--log-format", help="Lines on standard error: text or json.")] = "text",
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info",
    slow_epoch_seconds: Annotated[
        float, typer.Option("--slow-epoch-seconds", min=0, help="Longer epochs are warnings in the log; 0 for none.")
    ] = 10.0,
    adaptors: Annotated[
        bool, typer.Option("--adaptors", help="Let admins create Python adaptors, which run on this machine.")
    ] = False,
    traces: Annotated[
        bool, typer.Option("--traces", help="Export traces, as the environment variables of OpenTelemetry say.")
    ] = False,
    master: Master = None,
    mode: Mode = None,
    epoch_bytes: Annotated[str | None, typer.Option("--epoch-bytes", help="Input per epoch, e.g. 4m.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. max_rows=1000; repeatable. See below."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace views whose query has changed.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Drop views that the script does not declare.")] = False,
) -> None:
    """Keep views fresh, and serve them over HTTP, Arrow Flight and PostgreSQL's protocol until stopped."""
    from tidemill.cli.run.java_start import begin_serving
    from tidemill.cli.run.settings import settings_of_both
    from tidemill.serve.service.freed_memory import use_one_allocator

    use_one_allocator()
    if pipeline is not None:
        check_pipeline(pipeline)
    chosen, assigned = settings_of_both(master, epoch_bytes, _assignments(mode, given), ServerSettings)
    options = ServerSettings(
        host=host,
        port=port,
        flight_port=flight_port,
        pg_port=pg_port,
        tokens=tokens,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        hosts=tuple(allow_host or ()),
        requests_per_second=requests_per_second,
        log_format=log_format,
        log_level=log_level,
        slow_epoch_seconds=slow_epoch_seconds,
        adaptors=adaptors,
        traces=traces,
    )
    server = dataclasses.replace(options, **assigned)
    server.check()
    begin_serving(chosen)
    from tidemill.cli.run.running import create_from, open_mill, summary_of
    from tidemill.serve.running import serve as run_server

    with open_mill(root, chosen) as mill:
        if pipeline is not None:
            changed = summary_of(create_from(mill, pipeline, may_replace=replace, may_drop=prune))
            if changed:
                typer.echo(changed)
        run_server(mill, server, _say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@app.command()
def trade(
    strategies: Annotated[
        list[str], typer.Argument(metavar="STRATEGY...", help="sobi, maker, momentum, random, or file.py:Class.")
    ],
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Back-test over a file of lines t,id,action,volume,price.")
    ] = None,
    exchange_at: Annotated[
        str | None, typer.Option("--exchange", metavar="HOST:PORT", help="Trade at an exchange that is served there.")
    ] = None,
    server: ServerUrl = None,
    symbol: Annotated[str, typer.Option("--symbol", help="What is traded at the exchange: its first symbol.")] = "ACME",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0, help="How long; until SIGINT by default.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="[STRATEGY.]NAME=VALUE", help="An option of a strategy; repeatable."),
    ] = None,
    step: Annotated[int, typer.Option("--step", min=1, help="Milliseconds of the trace between two epochs.")] = 1000,
    policy: Annotated[
        str, typer.Option("--policy", help="Orders trade with those of the trace (all), or each other only (live).")
    ] = "all",
    trace_mode: Annotated[
        str, typer.Option("--trace-mode", help="Malformed rows: PERMISSIVE or DROPMALFORMED leaves them out, FAILFAST.")
    ] = "PERMISSIVE",
    most_position: Annotated[int, typer.Option("--most-position", min=0, help="Most that a strategy may hold.")] = (
        10_000
    ),
    fee: Annotated[int, typer.Option("--fee", min=0, help="Of a trade, in millionths of its value.")] = 0,
    tick: Annotated[int, typer.Option("--tick", min=1, help="Unit of prices.")] = 1,
    report: Annotated[Path | None, typer.Option("--report", help="Directory for a page and tables of each.")] = None,
    master: Master = None,
    mode: Mode = None,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the mill; repeatable.")
    ] = None,
) -> None:
    """Run strategies that follow views of an order book: over a trace, or live at an exchange with a server's views."""
    from tidemill.algos.account import Limits
    from tidemill.cli.query import remote
    from tidemill.cli.run.settings import settings
    from tidemill.cli.trade import back_test, check_place, policy_of, trade_live

    check_place(trace, exchange_at, server)

    limits = Limits(position=most_position)
    if trace is None:
        client = remote.server_for(None, server)
        assert client is not None
        trade_live(client, str(exchange_at), strategies, options or [], symbol, seconds, limits, fee, report)
        return
    chosen = settings(master, None, _assignments(mode, given))
    back_test(strategies, options or [], trace, step, policy_of(policy), limits, fee, tick, trace_mode, report, chosen)


@app.command()
def query(
    statement: Annotated[str, typer.Argument(help="SELECT, SHOW, DESCRIBE or EXPLAIN [INCREMENTAL] over views.")],
    root: MaybeRoot = None,
    server: ServerUrl = None,
    format_: Format = "table",
    epoch: Annotated[int | None, typer.Option("--epoch", help="Read the views as of this epoch.")] = None,
    master: Master = None,
) -> None:
    """Read views: at the newest sealed epoch from a server, else at the newest durable one of a root.

    Without a server SHOW, DESCRIBE, and a SELECT that only reads one view, are answered without Spark.
    """
    from tidemill.cli.query import command

    command.query(statement, root, server, format_, epoch, master)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(help="Any one statement: CREATE, ALTER, DROP, SELECT, SHOW, ...")],
    root: MaybeRoot = None,
    server: ServerUrl = None,
    format_: Format = "table",
    master: Master = None,
) -> None:
    """Execute a statement in a running server, or in a root that no mill has open."""
    from tidemill.cli.query import local, remote
    from tidemill.cli.query.command import write_answer

    output.check_format(format_)
    client = remote.server_for(root, server)
    if client is not None:
        write_answer(remote.answer(client, statement, None), format_)
    else:
        assert root is not None
        write_answer(local.execute(root, statement, master), format_)


@app.command()
def tail(
    view: Annotated[str, typer.Argument(help="The view to follow.")],
    root: MaybeRoot = None,
    server: ServerUrl = None,
    from_epoch: Annotated[int, typer.Option("--from", help="Show changes after this epoch.")] = 0,
    format_: Format = "table",
) -> None:
    """Print a view's changes epoch by epoch; follows for as long as a mill or server is running."""
    from tidemill.cli.query import local, remote
    from tidemill.cli.query.change_table import as_text, in_order

    output.check_format(format_)
    client = remote.server_for(root, server)
    if client is not None:
        found = remote.follow(client, view, from_epoch)
    else:
        assert root is not None
        found = local.follow(root, view.lower(), from_epoch)
    for epoch, changes in found:
        if format_ == "table":
            sys.stdout.buffer.write(f"epoch {epoch}\n{as_text(changes)}".encode())
        else:
            output.write(output.with_epoch(in_order(changes), epoch), format_, sys.stdout.buffer)
        sys.stdout.buffer.flush()


@app.command()
def explain(
    pipeline: Annotated[
        str, typer.Argument(help="SQL script or Python file; with --server or --root a view's name or a SELECT.")
    ],
    root: MaybeRoot = None,
    server: ServerUrl = None,
    master: Master = None,
) -> None:
    """Show the incremental plan of every view of a script or pipeline, or of a query, without running it."""
    if root is None and server is None:
        from tidemill.cli.run.java_start import begin_java
        from tidemill.cli.run.settings import settings

        script = Path(pipeline)
        check_pipeline(script)
        chosen = begin_java(settings(master), ml=script.suffix == ".py")
        from tidemill.cli.run.running import explain_script

        for name, text in explain_script(script, chosen):
            typer.echo(f"{name}\n{text}\n")
        return
    from tidemill.cli.query import local, remote
    from tidemill.cli.query.command import write_answer

    client = remote.server_for(root, server)
    if client is not None:
        typer.echo(remote.plan(client, pipeline))
    else:
        assert root is not None
        write_answer(local.answer(root, f"EXPLAIN INCREMENTAL {pipeline}", None, master), "table")


state = typer.Typer(no_args_is_help=True, help="Inspect, verify and clean up a root.")
app.command()(demo)
app.add_typer(state, name="state")
app.add_typer(exchange, name="exchange")

Buffer = Annotated[
    str | None, typer.Option("--buffer", help="This host's buffer directory, if the mill was given one.")
]


@state.command("ls")
def state_ls(
    root: Root,
    format_: Format = "table",
    files: Annotated[bool, typer.Option("--files", help="List files instead of tables.")] = False,
    buffer: Buffer = None,
) -> None:
    """List the state tables or files of a root: those of the newest durable epoch, and those not durable.

    Exit code 1, and a line on standard error, when a file that the newest manifest names is missing.
    """
    from tidemill.runtime.read.state_report import StateReport

    output.check_format(format_)
    report = StateReport.open(root, buffer)
    _heading(report.title(), format_)
    _heading(report.sizes(), format_)
    output.write(report.files() if files else report.tables(), format_, sys.stdout.buffer)
    missing = report.missing()
    if missing:
        sys.stdout.flush()
        typer.echo(missing, err=True)
        sys.exit(1)


@state.command("inspect")
def state_inspect(
    name: Annotated[
        str, typer.Argument(help="A state table, a view, or a state file (the beginning of its name will do).")
    ],
    root: Root,
    rows: Annotated[int, typer.Option("--rows", min=0, help="Print this many decoded rows instead.")] = 0,
    format_: Format = "table",
    buffer: Buffer = None,
) -> None:
    """Show the runs of a state table, or the sections of a state file."""
    from tidemill.runtime.read.state_report import StateReport

    output.check_format(format_)
    report = StateReport.open(root, buffer)
    found = report.find(name)
    if rows:
        for title, table in report.rows(found, rows):
            _heading(title, format_)
            output.write(table, format_, sys.stdout.buffer)
        return
    _heading(found, format_)
    table = report.sections(found) if report.is_file(found) else report.runs(found)
    output.write(table, format_, sys.stdout.buffer)


@state.command("verify")
def state_verify(root: Root, format_: Format = "table", buffer: Buffer = None) -> None:
    """Check every byte of all manifests and of the files that they name; exit code 1 unless all are intact.

    Prints what is damaged, and a summary on standard error.
    """
    from tidemill.runtime.read.state_check import verify

    output.check_format(format_)
    found = verify(root, buffer)
    if format_ != "table" or not found.intact:
        output.write(found.table(damaged_only=format_ == "table"), format_, sys.stdout.buffer)
    sys.stdout.flush()
    typer.echo(found.summary(), err=True)
    if not found.intact:
        sys.exit(1)


@state.command("gc")
def state_gc(
    root: Root,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would be removed.")] = False,
    grace: Annotated[
        float | None, typer.Option("--grace", min=0, help="Minimum age of a file in seconds; 120.")
    ] = None,
    format_: Format = "table",
    buffer: Buffer = None,
) -> None:
    """Remove the files that no manifest names, and all but the newest manifests. Only while no mill writes the root.

    A root in a directory is locked meanwhile (TM1003 when a mill runs). One in an object store cannot be: it is taken
    over, and a mill that still runs stops with TM1003.
    """
    from tidemill.runtime.read.state_check import collect

    output.check_format(format_)
    found = collect(root, buffer, grace, remove=not dry_run)
    if found.files or format_ != "table":
        output.write(found.table(), format_, sys.stdout.buffer)
    sys.stdout.flush()
    typer.echo(found.summary(removed=not dry_run), err=True)


def _heading(text: str, format_: str) -> None:
    """Write a line above a table, in the format for people."""
    if format_ == "table":
        sys.stdout.buffer.write(f"{text}\n".encode())


def check_pipeline(path: Path) -> None:
    """Check a script without Spark: TM7003 when it cannot be read, TM2001 and TM2003 for its SQL."""
    from tidemill.plan.sql.statement_words import check_script

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise TidemillError("TM7003", "the script cannot be read", got=f"{path}: {error}") from error
    if path.suffix != ".py":
        check_script(text)


def _show_version(asked: bool) -> None:
    if asked:
        import tidemill

        typer.echo(f"tidemill {tidemill.__version__}")
        raise typer.Exit


@app.callback()
def _tidemill(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Spark SQL views that are always right and always fresh, over raw files and streams."""


def main() -> None:
    """The command with any arguments; as :func:`tidemill.cli.ending.with_errors_told`."""
    with_errors_told(app)


if __name__ == "__main__":
    main()
