#!/usr/bin/env python3
"""Evolves the formulas of formula_placer.py in the arena. Standard library only; the same seed gives the same formulas.

    baechi arena --hidden 1 -o results/training             # instances to train on
    evolve.py --baechi build/release/baechi --instances results/training --seed 1 -o results/evolved
    baechi arena --placer exec:results/evolved/placer.py

A child changes one to three terms of a parent's formulas. It lives if its score on the training instances is among the best.
A failure counts as in the arena, so formulas that need less memory are found, too. The placer that comes out knows nothing of
other placers."""
import argparse
import json
import os
import random
import subprocess

from formula_placer import ORDER, START, WHERE


def mutated(rng, parent):
    child = {name: [[w, list(names)] for w, names in terms] for name, terms in parent.items()}
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice(sorted(child))
        features, terms = (ORDER, WHERE)[name.endswith("where")], child[name]
        kind = rng.random()
        if kind < 0.45 or not terms:
            names = [rng.choice(features) for _ in range(rng.choice([1, 1, 2]))]
            terms.append([round(rng.choice([-1, 1]) * 2 ** rng.uniform(-5, 2), 4), names])
        elif kind < 0.85:
            rng.choice(terms)[0] *= round(2 ** rng.uniform(-1, 1), 3)
        elif len(terms) > 1:
            terms.remove(rng.choice(terms))
    return child


def text_of(formulas):
    return "; ".join(name + " = " + " + ".join("%.4g %s" % (w, " ".join(names)) for w, names in terms)
                     for name, terms in sorted(formulas.items()))


def write_placer(path, formulas):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(path, "w") as file:
        file.write("#!/usr/bin/env python3\nimport sys\nsys.dont_write_bytecode = True\n"
                   "sys.path.insert(0, %r)\nfrom formula_placer import place\n\nplace(%s)\n" % (
                       here, json.dumps(formulas)))
    os.chmod(path, 0o755)


class Arena:
    """Scores formulas on the training instances, relative to m_etf there."""

    def __init__(self, arguments):
        self.arguments, self.known = arguments, {}
        self.rival = self.ask("m_etf", True)

    def ask(self, placer, update):
        command = [self.arguments.baechi, "arena", "--format", "json", "--placer", placer, "-j", str(self.arguments.threads)]
        command += ["--instances", self.arguments.instances] + (["--update-best"] if update else [])
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        scores = {entry["name"]: entry["score"] for entry in answer["ranking"]}
        return scores[placer] / scores.get("m_etf", 1.0)

    def score(self, formulas):
        text = text_of(formulas)
        if text not in self.known:
            path = os.path.join(self.arguments.output, "candidate.py")
            write_placer(path, formulas)
            self.known[text] = self.ask("exec:" + path, False)
        return self.known[text]


def evolve(arguments):
    os.makedirs(arguments.output, exist_ok=True)
    rng, arena = random.Random(arguments.seed), Arena(arguments)
    population = [(arena.score(START), START)]
    print("start  %.4f x m_etf  %s" % (population[0][0], text_of(START)), flush=True)
    for generation in range(arguments.generations):
        for _ in range(arguments.children):
            parent = min(rng.sample(population, min(2, len(population))), key=lambda one: one[0])[1]
            child = mutated(rng, parent)
            population.append((arena.score(child), child))
        population = sorted(population, key=lambda one: one[0])[:arguments.population]
        print("%5d  %.4f x m_etf  %s" % (generation + 1, population[0][0], text_of(population[0][1])), flush=True)
        write_placer(os.path.join(arguments.output, "placer.py"), population[0][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--baechi", default="baechi")
    parser.add_argument("--instances", required=True, help="folder with instances/*.yaml to train on")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--children", type=int, default=4, help="of a generation")
    parser.add_argument("--population", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", "--output", default="results/evolved")
    evolve(parser.parse_args())


if __name__ == "__main__":
    main()
