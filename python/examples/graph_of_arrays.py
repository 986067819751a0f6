"""A graph from arrays: a(10 us) -> b(20 us) and c(30 us), which read the same 100 kB."""
import baechi

graph = baechi.Graph([10.0, 20.0, 30.0], edges=([0, 0], [1, 2]), output_bytes=[100_000, 0, 0], names=["a", "b", "c"])
cluster = baechi.Cluster(devices=2, memory="1 GiB", bandwidth="1 GB/s", latency="0 us")
step = baechi.simulate(graph, cluster, {"a": 0, "b": 1, "c": 1}, timeline=True)
print(step)
assert step.step_time_us == 160.0  # 10, then 100 for the tensor, which is sent once, then 20 and 30
assert list(step.timeline["start_ns"]) == [0, 110_000, 130_000]
assert baechi.simulate(graph, cluster, [0, 0, 0]).step_time_us == 60.0
