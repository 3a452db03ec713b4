"""Configuration flow: resolving, order, cycles, who is affected, and where values came from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.configuration.model.flow import (
    Export,
    FlowNode,
    Graph,
    Import,
    ImportedValue,
    ValueType,
    affected_services,
    changed_services,
    check_export,
    import_cycle,
    resolve_imports,
    rollout_order,
)
from core.errors import Invalid

TEXT, NUMBER = ValueType.TEXT, ValueType.NUMBER


def node(
    id: str, exports: tuple[Export, ...] = (), *imports: Import, project: str = "p"
) -> FlowNode:
    facts = {"service.name": id, "cluster.handle": "dev"}
    return FlowNode(
        id,
        f"dev/{id}",
        project,
        {one.name: one for one in exports},
        {one.alias: one for one in imports},
        facts,
    )


def graph(*nodes: FlowNode) -> Graph:
    return {one.id: one for one in nodes}


HOST = Export("host", "${service.name}.${cluster.handle}.svc")
PORT = Export("port", 5432, NUMBER)
URL = Export("url", "postgres://${imports.host}:${imports.port}")


def shop() -> Graph:
    """db exports host and port; api makes a URL of them; web imports that."""
    return graph(
        node("db", (HOST, PORT)),
        node("api", (URL,), Import("host", "db", "host"), Import("port", "db", "port")),
        node("web", (), Import("url", "api", "url")),
    )


def test_values_flow_along_the_imports_and_tell_where_they_came_from() -> None:
    found = resolve_imports(shop())
    assert found.problems == {}
    assert found.imports["api"]["port"] == ImportedValue(5432, ("dev/db.port",))
    assert found.imports["web"]["url"] == ImportedValue(
        "postgres://db.dev.svc:5432", ("dev/api.url", "dev/db.host", "dev/db.port")
    )


def test_a_long_chain_tells_the_nearest_exports_only() -> None:
    """So the way of a value costs no more than the value."""
    again = Export("x", "${imports.x}")
    flow = graph(
        node("0", (Export("x", "value"),)),
        *(node(str(n), (again,), Import("x", str(n - 1), "x")) for n in range(1, 500)),
    )
    found = resolve_imports(flow).imports["499"]["x"]
    assert (found.value, found.origin[0], len(found.origin)) == ("value", "dev/498.x", 32)


def test_a_lone_reference_takes_over_the_type() -> None:
    again = Export("port", "${imports.port}", NUMBER)
    flow = graph(
        node("db", (PORT,)),
        node("api", (again,), Import("port", "db", "port")),
        node("web", (), Import("port", "api", "port")),
    )
    assert resolve_imports(flow).imports["web"]["port"].value == 5432


def test_a_missing_import_is_named_and_blocks_no_other_service() -> None:
    """A default fills in; without one the error names the missing export."""
    flow = graph(
        node("db", (HOST,)),
        node("api", (URL,), Import("host", "db", "host"), Import("port", "db", "port")),
        node("web", (), Import("url", "api", "url")),
        node("job", (), Import("url", "api", "url", "none")),
        node("old", (), Import("x", "gone", "x")),
    )
    found = resolve_imports(flow)
    assert found.problems == {
        "api": "import port: dev/db.port is not exported",
        "web": "import url: dev/api.url has no value because one of its own imports is missing",
        "old": "import x: its service was deleted",
    }
    assert found.imports["job"]["url"] == ImportedValue("none", ("default",))


def test_another_project_gets_only_what_is_shared() -> None:
    """Taking the grant away takes the value away."""
    for is_shared in (True, False):
        source = node("db", (Export("host", "h", shared=is_shared),))
        user = node("api", (), Import("host", "db", "host"), project="other")
        found = resolve_imports(graph(source, user))
        assert ("api" in found.problems) is not is_shared
        assert ("host" in found.imports["api"]) is is_shared
    assert found.problems == {"api": "import host: dev/db.host is not shared with other projects"}


def test_only_those_whose_values_changed_are_named() -> None:
    """A change that a service in between does not pass on ends there."""
    before = shop()
    after = {**before, "db": node("db", (HOST, Export("port", 5433, NUMBER)))}
    assert changed_services(resolve_imports(before), resolve_imports(after)) == {"api", "web"}
    fixed = Export("url", "fixed")
    quiet = {**before, "api": node("api", (fixed,), *before["api"].imports.values())}
    more = {**quiet, "db": after["db"]}
    assert changed_services(resolve_imports(quiet), resolve_imports(more)) == {"api"}


def test_a_reference_of_another_type_than_its_export_is_a_problem() -> None:
    """It is shown at the exporting service, although none of its imports changed."""
    before = graph(node("db", (Export("port", "${service.name}"),)))
    after = graph(node("db", (Export("port", "${service.name}", NUMBER),)))
    problems = {"db": "dev/db.port did not resolve to number"}
    assert resolve_imports(after).problems == problems
    assert changed_services(resolve_imports(before), resolve_imports(after)) == {"db"}
    user = node("api", (), Import("port", "db", "port", 5432))
    found = resolve_imports({**after, "api": user})
    assert (found.imports["api"]["port"].value, found.problems) == (5432, problems)


def test_references_in_lists_and_objects_are_filled_in_and_others_stay() -> None:
    value = {"hosts": ["${imports.host}", "${cluster.region}"], "on": True, "port": 1}
    flow = graph(
        node("db", (HOST,)),
        node("api", (Export("all", value, ValueType.OBJECT),), Import("host", "db", "host")),
        node("web", (), Import("all", "api", "all")),
    )
    assert resolve_imports(flow).imports["web"]["all"] == ImportedValue(
        {"hosts": ["db.dev.svc", "${cluster.region}"], "on": True, "port": 1},
        ("dev/api.all", "dev/db.host"),
    )


def test_a_cycle_is_named_from_end_to_end() -> None:
    flow = graph(
        node("a", (), Import("x", "b", "x")),
        node("b", (), Import("x", "c", "x")),
        node("c", (), Import("x", "a", "x")),
    )
    assert import_cycle(flow, "a") == ["dev/a", "dev/b", "dev/c", "dev/a"]
    assert import_cycle(shop(), "web") == []
    for order in (lambda: rollout_order(flow), lambda: affected_services(flow, "a")):
        with pytest.raises(Invalid, match="cycle"):
            order()


def test_affected_services_come_in_rollout_order() -> None:
    assert affected_services(shop(), "db") == ["api", "web"]
    assert affected_services(shop(), "web") == []
    assert rollout_order(shop(), ["web", "db"]) == [["db"], ["web"]]


@pytest.mark.parametrize(
    "export",
    [
        Export("port", "5432", NUMBER),
        Export("port", True, NUMBER),
        Export("a-b", "x"),
        Export("x", "x" * 70_000),
        Export("x", [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]], ValueType.LIST),
    ],
    ids=["type", "boolean", "name", "long", "deep"],
)
def test_exports_that_cannot_be_are_refused(export: Export) -> None:
    with pytest.raises(Invalid):
        check_export(export)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Services that import only from those before them."""
    count = draw(st.integers(1, 12))
    nodes = []
    for number in range(count):
        sources = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        imports = [Import(f"i{one}", str(one), "x") for one in sorted(sources)]
        value = "".join(f"${{imports.i{one}}}" for one in sorted(sources)) or str(number)
        nodes.append(node(str(number), (Export("x", value),), *imports))
    return graph(*nodes)


@settings(max_examples=40)
@given(graphs())
def test_every_service_comes_after_all_that_it_imports_from(flow: Graph) -> None:
    """Each once; and nothing is missing where there is no cycle."""
    place = {id: number for number, group in enumerate(rollout_order(flow)) for id in group}
    assert place.keys() == flow.keys()
    for id, one in flow.items():
        assert all(place[source.source_id] < place[id] for source in one.imports.values())
        assert import_cycle(flow, id) == []
    assert resolve_imports(flow).problems == {}


@settings(max_examples=40)
@given(graphs(), st.data())
def test_a_change_reaches_none_but_those_that_are_affected(
    flow: Graph, data: st.DataObject
) -> None:
    id = data.draw(st.sampled_from(sorted(flow)))
    new = node(id, (Export("x", "new"),), *flow[id].imports.values())
    reached = changed_services(resolve_imports(flow), resolve_imports({**flow, id: new}))
    assert reached <= set(affected_services(flow, id))
    direct = {one for one in flow if any(i.source_id == id for i in flow[one].imports.values())}
    assert direct <= reached


def chain(count: int, value: object, type: ValueType, first: object) -> Graph:
    """Services that each export what they make of the export of the one before."""
    start = node("s00", (Export("x", first, type),))
    names = [f"s{number:02}" for number in range(count)]
    imports = [Import("x", name, "x") for name in names]
    following = [
        node(name, (Export("x", value, type),), source)
        for name, source in zip(names[1:], imports, strict=False)
    ]
    return graph(start, *following)


@pytest.mark.parametrize(
    ("value", "type", "first"),
    [
        ("${imports.x}${imports.x}", TEXT, "x" * 1_000),
        ("-" + "${imports.x}" * 5_000, TEXT, "x" * 100),
        (["${imports.x}", "${imports.x}"], ValueType.LIST, ["x" * 1_000]),
        ({"a": "${imports.x}", "b": "${imports.x}"}, ValueType.OBJECT, {"a": "x" * 1_000}),
        (["${imports.x}"], ValueType.LIST, []),
    ],
)
def test_values_that_grow_along_their_imports_have_a_limit(
    value: object, type: ValueType, first: object
) -> None:
    """No chain of services fills the memory, or nests deeper than a value may."""
    found = resolve_imports(chain(40, value, type, first))
    (problem, *_) = found.problems.values()
    assert "65,536" in problem or "16 levels" in problem
    for imports in found.imports.values():
        for imported in imports.values():
            assert len(str(imported.value)) < 3 * 65_536


def test_a_value_at_its_limit_flows() -> None:
    """One character more is a problem that names the export."""
    double = Export("x", "${imports.x}${imports.x}")
    for length, problem in (
        (32_768, None),
        (
            32_769,
            "dev/api.x has 65,538 characters with its imports, but at most 65,536 are allowed",
        ),
    ):
        flow = graph(
            node("db", (Export("x", "x" * length),)),
            node("api", (double,), Import("x", "db", "x")),
            node("web", (), Import("x", "api", "x", "fallback")),
        )
        found = resolve_imports(flow)
        assert found.problems.get("api") == problem
        value = found.imports["web"]["x"].value
        assert value == ("fallback" if problem else "x" * 65_536)
