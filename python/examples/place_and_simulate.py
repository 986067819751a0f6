"""Places a model, simulates the step, and reads the timeline as arrays."""
import baechi

graph = baechi.generate("resnet50", batch=8)
cluster = baechi.Cluster(devices=4, memory="800 MiB", kind="v100", bandwidth="25 GB/s", latency="10 us")
print(graph, "on", cluster)
for placer in ("m_topo", "m_etf", "search:seconds=1"):
    placement = baechi.place(graph, cluster, placer=placer)
    step = baechi.simulate(graph, cluster, placement, timeline=True)
    assert step.ok, step.oom
    assert step.step_time_us >= baechi.bound(graph, cluster)
    timeline = step.timeline
    busiest = max(range(4), key=lambda d: step.busy_ns[d])
    print(f"{placer:18} {step.step_time_us:9.1f} us, {step.moved_bytes / 1e6:6.1f} MB moved, "
          f"device {busiest} busy {step.busy_ns[busiest] / 1e3:.1f} us")
    assert len(timeline["op"]) == graph.num_ops
    assert max(timeline["end_ns"]) / 1000 == step.step_time_us

# Any number of a step may be minimised: here MB moved and ms.
def objective(step):
    return step.moved_bytes / 1e6 + step.step_time_us / 1e3


least = baechi.search(graph, cluster, objective, placer="m_topo", evaluations=50)
start = baechi.simulate(graph, cluster, baechi.place(graph, cluster, placer="m_topo"))
print(f"MB + ms: {objective(start):.1f} by m_topo, {least.facts['objective']:.1f} after {least.detail}")
assert least.facts["objective"] <= objective(start)
try:
    baechi.place(graph, baechi.Cluster(devices=1, memory="10 MiB", kind="v100"))
except baechi.InfeasibleError as why:
    print("infeasible:", why)
try:
    baechi.Cluster(devices=4, memory="8 gigs", latency="fast")
except baechi.InputError as why:
    print(why)
