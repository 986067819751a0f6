"""A placer in Python: assigns each group of ops, in graph order, to the device with the least load. It runs in this
process, on the program's arrays."""
import baechi


def least_loaded(problem):
    times, groups, weights = problem.compute_ns, problem.groups, problem.persistent_bytes
    limit = problem.memory_bytes
    load, used, home, device = [0] * problem.num_devices, [0] * problem.num_devices, {}, []
    need = {}
    for op in range(problem.num_ops):
        unit = int(groups[op]) or -op - 1  # an op without a group is a separate unit
        need[unit] = need.get(unit, 0) + int(weights[op])
    for op in range(problem.num_ops):
        unit = int(groups[op]) or -op - 1
        if unit not in home:
            fits = [d for d in range(problem.num_devices) if used[d] + need[unit] <= limit[d] // 2]
            if not fits:
                raise baechi.InfeasibleError(f"op {op} fits no device")
            home[unit] = min(fits, key=lambda d: load[d])
            used[home[unit]] += need[unit]
        load[home[unit]] += int(times[op])
        device.append(home[unit])
    return device


graph = baechi.generate("gnmt", batch=16)
cluster = baechi.Cluster(devices=4, memory="8 GiB", kind="v100")
for placer in (least_loaded, "least_loaded", "m_sct"):
    step = baechi.simulate(graph, cluster, baechi.place(graph, cluster, placer=placer))
    print(f"{getattr(placer, '__name__', placer):14} {step.step_time_us:9.1f} us")
