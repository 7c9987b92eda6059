"""``kq task admit`` and ``kq certify``: whether a task is sound, and what its target is."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from verifier.admission import AdmissionReport, Finding
from verifier.certificate import Certificate, write_certificate
from verifier.cli_suite import choose_tasks
from verifier.environment import EnvironmentSpecification
from verifier.exits import Exit
from verifier.task import Task, TaskError
from verifier.terminal import (
    JobsOption,
    JsonOption,
    ProgressKind,
    TaskArgument,
    err,
    explain_host,
    fail,
    find_environment,
    find_task,
    out,
    show_progress,
)
from verifier.verdict import Verdict

TESTS = Path(__file__).resolve().parent.parent / "tests"
KINDS = {"must fail": "fails", "must pass": "passes", "must fail somewhere": "fails somewhere"}


def admit(
    task: TaskArgument,
    environment: Annotated[str, typer.Option(help="Where to examine it.")] = "cpu-interpreter",
    folder: Annotated[Path, typer.Option(help="The folder with exploits/ and honest/.", show_default="tests")] = TESTS,
    fixtures: Annotated[bool, typer.Option(help="Verify the task's fixtures and its certified solution too.")] = True,
    jobs: JobsOption = 2,
    as_json: JsonOption = False,
) -> None:
    """Examine a task: wrong answers fail, every input matters, and its fixtures get the verdicts that they must get.

    Exit code 0: admitted; 2: something stands in the way.
    """
    from verifier.examination import Admission

    specification, found = find_environment(environment, as_json=as_json), find_task(task, as_json=as_json)
    try:
        admission = Admission(found, specification)
        findings = []
        for finding in admission.run():
            findings.append(finding)
            if not finding.ok and not as_json:
                err.print(f"[bold red]no[/]  {describe_finding(finding)}", highlight=False)
    except TaskError as error:
        raise fail(Exit.USAGE, str(error), "run: kq task lint", as_json=as_json) from None
    report = admission.report(findings)
    if fixtures:
        wrong = verify_fixtures(found, specification, folder, jobs)
        report = report.model_copy(update={"wrong_fixtures": wrong})
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        show_admission(report)
    raise typer.Exit(Exit.OK if report.admitted else Exit.USAGE)


def describe_finding(finding: Finding) -> str:
    """Return a finding as a line."""
    return f"{finding.test} on {finding.distribution} {finding.kind}: {finding.budget_ratio:.3g} of the error budget"


def verify_fixtures(task: Task, environment: EnvironmentSpecification, folder: Path, jobs: int) -> list[str]:
    """Verify the certified solution and every fixture of a task, and return what went wrong."""
    from verifier.selftest import Fixture, list_fixtures, run_selftest

    chosen = [item for item in list_fixtures(folder, environment.slug) if item.task == task.id]
    certified = Fixture(task.path / "certified.py", str(task.path), "")
    wrong = []
    with explain_host():
        for result in run_selftest([certified, *chosen], folder, environment, jobs):
            mark = "[green]ok[/]" if result.as_expected else "[bold red]no[/]"
            found = ", ".join(result.failures) or result.outcome
            err.print(f"{mark}  {result.kind} {result.name}: {found} ({result.seconds:.0f} s)", highlight=False)
            if not result.as_expected:
                wrong.append(f"{result.name}: {found}, expected {result.expected or 'acceptance'}")
    return wrong


def show_admission(report: AdmissionReport) -> None:
    """Print the examination as a table, a row a test and a column a distribution."""
    distributions = list(dict.fromkeys(finding.distribution for finding in report.findings))
    table = Table("test", "", *distributions, box=None)
    for test in dict.fromkeys(finding.test for finding in report.findings):
        row = {finding.distribution: finding for finding in report.findings if finding.test == test}
        cells = [
            f"{row[name].budget_ratio:.3g}" if row[name].ok else f"[bold red]{row[name].budget_ratio:.3g}[/]"
            for name in distributions
        ]
        table.add_row(test, KINDS[next(iter(row.values())).kind], *cells)
    out.print("Largest error over the error allowed; at most 1 passes.", highlight=False)
    out.print(table, highlight=False)
    for name in report.unexposed:
        out.print(f"[bold red]no[/]  no distribution exposes {name}", highlight=False)
    for name in report.insensitive:
        out.print(f"[bold red]no[/]  {escape(name)} changes nothing on any distribution", highlight=False)
    for text in report.wrong_fixtures:
        out.print(f"[bold red]no[/]  {escape(text)}", highlight=False)
    if report.admitted:
        out.print(f"[bold green]admitted[/] {report.task} in {report.environment}", highlight=False)


def certify(
    tasks: Annotated[list[str] | None, typer.Argument(help="Task ids, slugs or folders.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every task.")] = False,
    environment: Annotated[
        str, typer.Option(help="Where to certify: this host's GPU and versions must be its.")
    ] = "h200",
    jobs: JobsOption = 1,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Leave out what has a certificate for the files as they are, and go on from there."
        ),
    ] = False,
    verdicts: Annotated[Path | None, typer.Option(help="A folder for the last verdict of each task.")] = None,
    as_json: JsonOption = False,
    progress: Annotated[ProgressKind, typer.Option(help="Progress on stderr.")] = ProgressKind.AUTO,
) -> None:
    """Certify tasks: verify each certified solution in independent sessions, and write what target follows.

    Exit code 0: every task has a certificate, if only one that says why there is no target; 1: some solution failed.
    """
    specification = find_environment(environment, as_json=as_json)
    if not specification.timed:
        raise fail(Exit.USAGE, f"nothing is timed in {environment}", "try: h200", as_json=as_json)
    chosen = choose_tasks(tasks or [], every=every, as_json=as_json)
    left = leave_out_certified(chosen, specification) if resume else chosen
    with explain_host(as_json=as_json):
        results = certify_each(left, specification, verdicts, progress, jobs=jobs, resume=resume)
    failed = {name: text for name, text in results.items() if isinstance(text, str)}
    if as_json:
        written = {
            name: item.model_dump(mode="json") for name, item in results.items() if isinstance(item, Certificate)
        }
        print(json.dumps({"schema": "kernelquest.certify/1", "certificates": written, "failed": failed}))
    raise typer.Exit(Exit.BELOW_TARGET if failed else Exit.OK)


def leave_out_certified(tasks: list[Task], environment: EnvironmentSpecification) -> list[Task]:
    """Return the tasks without a certificate for the files as they are, and say which have one."""
    from verifier.certification import is_certified

    left = []
    for task in tasks:
        if is_certified(task, environment):
            err.print(f"{task.id}: certified already", highlight=False)
        else:
            left.append(task)
    return left


def certify_each(
    tasks: list[Task],
    environment: EnvironmentSpecification,
    verdicts: Path | None,
    progress: ProgressKind,
    *,
    jobs: int,
    resume: bool,
) -> dict[str, Certificate | str]:
    """Certify tasks and say so as each ends; return its certificate, or why there is none."""
    from verifier.certification import CertificationError, certify_all

    results: dict[str, Certificate | str] = {}
    certifying = certify_all(
        tasks, environment, partial(show_progress, progress), jobs=jobs, resume=resume, keep=write_certificate
    )
    for task, found in certifying:
        if isinstance(found, CertificationError):
            err.print(f"[bold red]{task.id}[/]: {escape(str(found))}", highlight=False)
            results[task.id] = str(found)
            keep_verdict(found.verdict, verdicts, task)
            continue
        certificate, verdict = found
        path = write_certificate(task, certificate)
        keep_verdict(verdict, verdicts, task)
        err.print(describe_certificate(certificate, path), highlight=False)
        results[task.id] = certificate
    return results


def keep_verdict(verdict: Verdict | None, folder: Path | None, task: Task) -> None:
    """Write the verdict of a task into a folder, when there are both."""
    if verdict is None or folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{task.id}.json").write_text(verdict.to_json(indent=1) + "\n", encoding="utf-8")


def describe_certificate(certificate: Certificate, path: Path) -> str:
    """Return a certificate as a line."""
    speedups = ", ".join(f"{session.speedup:.3f}" for session in certificate.sessions)
    if certificate.target is None:
        return f"[yellow]{certificate.task}[/]: no target: {escape(certificate.reason)} ({speedups})"
    margin = f"cleared by {certificate.margin:.1%}" if certificate.margin is not None else ""
    return f"[green]{certificate.task}[/]: target {certificate.target:g}, {margin} ({speedups}); {escape(str(path))}"
