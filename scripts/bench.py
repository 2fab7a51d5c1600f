"""Measures the service beside its floors in one run, and prints tables with the ratios. See docs/performance.md.

``--harness`` runs the shared harness of the trade's other frameworks instead, with the service as one of its targets,
where that harness is present (TURNWIRE_SHARED, or ../shared beside the checkout).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "service"), str(ROOT / "clients" / "python")]

from bench import harness
from bench.child import Child, ChildFailure
from bench.plan import FULL, OTHERS, QUICK, TARGETS, Plan
from bench.report import Report, tables
from bench.session import Session

OUTPUT = ROOT / "build" / "bench"
MICRO_SECONDS = 120.0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about 40 s: one repetition with fewer turns")
    parser.add_argument("--repetitions", type=int, help="at most so many, within the time")
    parser.add_argument("--seconds", type=float, help="begin no repetition that would end later")
    parser.add_argument("--targets", help=f"comma-separated; there are: {', '.join(TARGETS)}")
    measures = ", ".join(sorted({step.measure for step in FULL.steps}))
    parser.add_argument("--only", help=f"comma-separated measures, without cold starts; there are: {measures}")
    parser.add_argument(
        "--parts", choices=["tiny", "quick", "full", "none"], help="sizes for the costs of single parts"
    )
    parser.add_argument("--against", type=Path, help="another checkout, whose service is measured beside this one's")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="directory for the samples (default: build/bench)")
    parser.add_argument("--harness", action="store_true", help="run the shared harness instead")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.harness:
            return harness.run(arguments.out, quick=arguments.quick, repetitions=arguments.repetitions)
        report = measure(plan_of(arguments), arguments.out, (arguments.against or ROOT).resolve())
    except (ChildFailure, harness.HarnessFailure, ValueError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    print(tables(report))
    return 1 if report.failures else 0


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the options ask for. Raises ValueError for a name that does not exist."""
    plan = QUICK if arguments.quick else FULL
    if arguments.repetitions is not None:
        plan = replace(plan, repetitions=arguments.repetitions)
    if arguments.seconds is not None:
        plan = replace(plan, seconds=arguments.seconds)
    if arguments.targets is not None:
        targets = tuple(arguments.targets.split(","))
        if unknown := set(targets) - set(TARGETS):
            raise ValueError(f"no target is called {', '.join(sorted(unknown))}; there are: {', '.join(TARGETS)}")
        plan = replace(plan, targets=targets)
    if arguments.against is not None:
        if not (arguments.against / "service" / "turnwired").is_dir():
            raise ValueError(f"{arguments.against} is no checkout of the service")
        plan = replace(plan, targets=plan.targets + OTHERS)
    if arguments.parts is not None:
        plan = replace(plan, micro=arguments.parts)
    if arguments.only is not None:
        wanted = arguments.only.split(",")
        chosen = tuple(step for step in plan.steps if step.measure in wanted)
        if not chosen:
            raise ValueError(f"no measure is called {arguments.only}")
        plan = replace(plan, steps=chosen, colds=0)
    return plan


def measure(plan: Plan, out: Path, other: Path) -> Report:
    """Run the plan and write every sample."""
    begun = time.time()
    # Beside the samples: the system's temporary directory may be memory, and the database is to be on a disk.
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=out))
    try:
        session = Session(plan, directory, lambda text: print(text, file=sys.stderr, flush=True), other)
        report = session.run()
        report.micro = parts(plan, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(begun))
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    content = {"began": stamp, "seconds": time.time() - begun, "machine": machine, **report.as_json()}
    path = out / f"{stamp}.json"
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"samples: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}", file=sys.stderr)
    return report


def parts(plan: Plan, directory: Path) -> list[dict[str, float | str]]:
    """The costs of single parts, each kind in a process of its own."""
    if plan.micro == "none":
        return []
    rows: list[dict[str, float | str]] = []
    for module in ("micro", "wires", "many_tools"):
        child = Child(["-m", f"bench.{module}", plan.micro, str(directory)], directory / f"{module}.log")
        try:
            rows += json.loads(child.receive(MICRO_SECONDS))
        finally:
            child.end()
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
