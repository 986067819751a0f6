"""Trainings that others measured: rows of their files as questions `training`.

A row is read into a dictionary of words: keys of the question (QUESTION_KEYS), and options of the generator.
"""
import math
from dataclasses import replace

from board import Comparison, InputError, Scored, facts, number_of

QUESTION_KEYS = frozenset(
    "generator nodes devices as host_op tensor context expert pipeline virtual micro_batch sequence overlap "
    "overlap_experts recompute recompute_layers offload_layers count_ends precision zero fsdp send batch framework "
    "pieces".split())
LISTS = ("whole_products", "recompute_modules")
# Where the words of rows and recipes are options: of the generator, its `kernels` or `config`, or of the framework.
PLACES = facts("words.csv")


class Words(dict):
    """What nobody said is ""."""

    def __missing__(self, key):
        return ""


def placed(generator, words):
    """The words that are no keys of a question, by place: "option", "kernels", "config", "framework"."""
    places = {"option": {}, "kernels": {}, "config": {}, "framework": {}}
    for word in sorted(words):
        value = words[word]
        place = next((p for p in PLACES if p["word"] == word and p["generator"] in ("", generator)),
                     {"place": "option", "key": word})
        key = place["key"]
        if word in LISTS:
            value = value.split(", ")
        elif word == "kernels":  # of attention that is not fused
            key, value = value, True
        elif word == "loss":
            value = value == "separate"
        elif word in ("balanced", "fused_attention") and place["place"] == "kernels":
            value = value not in (True, "true")
        elif word == "short_sums":
            value = "weights" if value in (True, "true") else "fp32"
        elif word == "masters":
            value = {"whole": "fp32"}.get(value, value)
        elif word == "recompute_attention":
            value = "core_attn" if value in (True, "true") else ""
        if key != "one":
            places[place["place"]][key] = value
    return places


def question_of(words):
    """An empty word says nothing."""
    said = {key: value for key, value in words.items() if value != ""}
    question = {"ask": "training", **{key: said[key] for key in sorted(said) if key in QUESTION_KEYS}}
    places = placed(said.get("generator", ""), {key: said[key] for key in said if key not in QUESTION_KEYS})
    if places["framework"]:
        question["framework"] = {"like": said.get("framework", "none"), **places["framework"]}
    question["options"] = options_of(places)
    return question


def options_of(places):
    return {**places["option"], **{key: places[key] for key in ("kernels", "config") if places[key]}}


def whole(words, key, unsaid=None, least=1):
    """The whole number that a word says."""
    text = words[key]
    if text == "" and unsaid is not None:
        return unsaid
    if text == "":
        raise InputError(f"the row says no {key}")
    value = number_of(str(text), int)
    if value is None or value < least:
        raise InputError(f"{key} '{text}' is no number from {least}")
    return value


def take(words, key):
    return words.pop(key, "")


def take_number(words, key):
    text = take(words, key)
    value = number_of(text)
    if value is None or value <= 0.0:
        raise InputError(f"{key} '{text}' is no number above 0")
    return value


def words_of(row, columns):
    """`columns`: "model, gpus=devices" takes a column as the word `model`, and `gpus` as the word `devices`."""
    words = Words()
    for name in columns.replace("\n", " ").split(","):
        column, _, word = name.strip().partition("=")
        if row[column] != "":
            words[word or column] = row[column]
    return words


MODELS = facts("models.csv")


def set_model(words, name):
    """The generator and the options of a model that models.csv has by its name as published, or its beginning."""
    for model in MODELS:
        if name == model["name"] or (model["generator"] == "" and name.startswith(model["name"])):
            if model["generator"] == "":
                raise InputError(f"{name}: {model['source']}")
            words["generator"] = model["generator"]
            words.update(option.split("=", 1) for option in model["options"].split())
            return
    raise InputError(f"no model '{name}'")


# Recipes: what public configurations say beside a row's plan.

RECIPES = facts("recipes.csv")


def one_of(pattern, text, matches):
    """Whether the text matches one of "a|b", or none of "!a|b"."""
    if pattern.startswith("!"):
        return not one_of(pattern[1:], text, matches)
    return pattern == "" or any(matches(text, part) for part in pattern.split("|"))


def since(text, condition):
    """">=26.04", "<26.06", "=25.09": releases, compared as texts."""
    if condition.startswith(">="):
        return text >= condition[2:]
    return text < condition[1:] if condition.startswith("<") else text == condition[1:]


def matches_recipe(recipe, words, model, release, system, dtype):
    def word(condition):
        key, sign, value = next((condition.partition(s) for s in (">", "=") if s in condition))
        said = str(words.get(key, "1"))
        return said == value if sign == "=" else int(said) > int(value)

    return (one_of(recipe["models"], model, lambda text, part: part in text)
            and all(since(release, condition) for condition in recipe["releases"].split())
            and one_of(recipe["systems"], system, str.__eq__)
            and one_of(recipe["dtypes"], dtype, lambda text, part: text.startswith(part.removesuffix("*"))
                       if part.endswith("*") else text == part)
            and all(word(condition) for condition in recipe["when"].split()))


def add_recipe(words, launchers, model, release="", system="", dtype="", own=()):
    """Adds the settings of recipes.csv: of each setting the first row that matches. What the row's `own` columns say
    stays. Returns the names of settings that no public source states."""
    settings = {}
    for recipe in RECIPES:
        if recipe["setting"] not in settings and not launchers.isdisjoint(recipe["launchers"].split()) and \
                matches_recipe(recipe, words, model, release, system, dtype):
            settings[recipe["setting"]] = recipe
    words.update((setting, recipe["value"]) for setting, recipe in settings.items() if setting not in own)
    return tuple(f"{setting}={recipe['value']}" for setting, recipe in settings.items()
                 if setting not in own and recipe["source"].startswith("inferred"))


# Blocks

# The value without an inferred setting, where that is not its absence.
WITHOUT = {"precision=FP8": "bf16", "zero=2": "1"}


def trainings(data, file, columns, read, score):
    """The comparison of a file. `read(words, row)` makes words of the question and fills in
    a Scored but for `simulated` and `work`; False: another block's. `score(answer, row)` writes these two."""
    comparison = Comparison()
    rows = []
    for line in data.read(file, comparison):
        with comparison.row(line):
            words, row = words_of(line, columns), Scored(lines=[line.line])
            if read(words, row):
                without = [{**words, setting.partition("=")[0]: WITHOUT.get(setting, "")}
                           for setting in row.inferred]
                rows.append((row, [question_of(asked) for asked in (words, *without)]))
    answers = iter((yield [question for _, questions in rows for question in questions]))
    for row, questions in rows:
        answer, *others = [next(answers) for _ in questions]
        if "error" in answer:
            comparison.skip(row.lines[0], answer["error"].split(" (options: ")[0])
            continue
        for setting, other in zip(row.inferred, others):
            if "error" not in other:
                without = replace(row)
                score(other, without)
                row.without[setting] = without.simulated
        row.refused = not answer["fits"]
        score(answer, row)
        comparison.rows.append(row)
    return comparison


def several(parts):
    """The comparisons of several files as one."""
    result = Comparison()
    for part in parts:
        result.add((yield from part))
    return result


def score_seconds(answer, row):
    row.simulated, row.work = answer["step_time_us"] / 1e6, answer["flops"]


def seconds_of(words, batch):
    """A step of `batch` samples at so many tokens per second and GPU."""
    rate = take_number(words, "tokens_per_s")
    return float(batch * whole(words, "length")) / (rate * whole(words, "devices"))


def divided(value, by):
    return math.ceil(value / by)
