"""What is measured of waterclock, by name, in the order it runs."""

from bench.plan import Scenario
from bench.scenarios.cold_start import cold_start
from bench.scenarios.components import executor_handlers, executor_memory, fan_out, process_spawn, workflows
from bench.scenarios.durability import durability
from bench.scenarios.fastest import fastest
from bench.scenarios.fire_rate import fire_rate
from bench.scenarios.floor import floor
from bench.scenarios.overload import overload
from bench.scenarios.process_jobs import process_jobs
from bench.scenarios.rebuild import rebuild
from bench.scenarios.start_lag import start_lag
from bench.scenarios.stored import stored
from bench.scenarios.submit import submit
from bench.scenarios.submit_single import submit_single

SCENARIOS: dict[str, Scenario] = {
    "fastest": fastest,
    "cold_start": cold_start,
    "start_lag": start_lag,
    "submit": submit,
    "fire_rate": fire_rate,
    "floor": floor,
    "submit_single": submit_single,
    "durability": durability,
    "process_jobs": process_jobs,
    "process_spawn": process_spawn,
    "executor_handlers": executor_handlers,
    "executor_memory": executor_memory,
    "workflows": workflows,
    "fan_out": fan_out,
    "rebuild": rebuild,
    "stored": stored,
    "overload": overload,
}
