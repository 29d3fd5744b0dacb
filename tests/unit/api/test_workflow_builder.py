"""The builder says what the same graph says as data."""

from waterclock.api.client.workflow_builder import Workflow
from waterclock.core.domain.job.parse import define_body
from waterclock.proto import spec


def test_a_graph_in_python() -> None:
    nightly = Workflow("nightly", cron="0 3 * * *", overlap="queue_one")
    fetch = nightly.task("fetch", command="./fetch.sh {{ parameters.day }}")
    load = nightly.task("load", command=["./load.sh", "{{ nodes.fetch.output.rows }}"], max_retries=2)
    check = nightly.task("check", command="./check.sh", trigger_rule="all_done")
    report = nightly.task("report", job_type="report")
    fetch >> [load, check] >> report
    defined = define_body(nightly.definition, now=0)
    assert isinstance(defined.task, spec.Workflow)
    assert {node.id: node.depends_on for node in defined.task.nodes} == {
        "fetch": (),
        "load": ("fetch",),
        "check": ("fetch",),
        "report": ("load", "check"),
    }
    assert (defined.overlap, defined.task.nodes[1].max_retries) == ("queue_one", 2)


def test_a_chain_reads_as_it_runs() -> None:
    chain = Workflow("chain")
    a, b, c = (chain.task(name, command="true") for name in "abc")
    a >> b >> c
    assert [node.get("depends_on") for node in chain.definition["nodes"]] == [None, ["a"], ["b"]]
