# SPDX-License-Identifier: BSD-3-Clause
"""Tests lie where the modules do that they test, and in files that can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "skgems"
MOST_LINES = 700

# Folders of tests that are no room of the package: results of two commits compared,
# what several test files share, and promises that all rooms keep together.
NOT_ROOMS = {"golden", "helpers", "privacy"}
# A program, which make test does not run.
PROGRAMS = {"guard/fuzz_summaries.py"}

# Modules that have no test file of their own: the file that tests each, and why it is
# tested there.
TESTED_ELSEWHERE = {
    "_cli/_others.py": ("cli/test_main.py", "commands for everybody"),
    "averaging/_averaged_model.py": (
        "averaging/test_averaging_torch.py",
        "the average is a net or a network",
    ),
    "averaging/_averaging_fit.py": (
        "averaging/test_co_learning.py",
        "fits in rounds, which have all parts of one",
    ),
    "averaging/_averaging.py": (
        "averaging/test_averages.py",
        "the aggregator without rounds",
    ),
    "averaging/_terms.py": ("guard/test_derived.py", "a node makes its requests"),
    "base/_aggregator.py": ("test_common.py", "all aggregators have it in common"),
    "base/_members.py": ("test_common_copies.py", "all aggregators have it in common"),
    "base/_validation.py": ("test_errors.py", "rows that are refused"),
    "ensembles/_candidates.py": ("ensembles/test_combine.py", "combine tries them"),
    "asking/_common_form.py": ("moments/test_forms.py", "forms of several nodes"),
    "evaluation/_totals.py": ("evaluation/test_judging.py", "what all nodes tell"),
    "parties/_simulated_noise.py": (
        "gems/test_noise.py",
        "simulated nodes tell with noise",
    ),
    "moments/_class_weights.py": ("moments/test_forms.py", "ridge with weights"),
    "channels/_folder.py": (
        "channels/test_exchange.py",
        "an exchange keeps its folder",
    ),
    "messages/_letters.py": ("channels/test_flower.py", "both sides in one exchange"),
    "parties/_answering.py": ("guard/test_outside.py", "nodes reply to a channel"),
    "parties/_front_states.py": (
        "guard/test_front_states.py",
        "what a node takes of fronts",
    ),
    "parties/_fronts.py": (
        "asking/test_fronts.py",
        "rows go through fronts everywhere",
    ),
    "parties/_small_classes.py": ("guard/test_bounds.py", "classes that are left out"),
    "parties/_terms.py": ("guard/test_derived.py", "a node makes its requests"),
    "parties/_warnings.py": ("asking/test_fronts.py", "columns that identify rows"),
    "asking/_reading.py": ("parties/test_reading.py", "rows are read for a federation"),
    "guard/_flower_client.py": (
        "channels/test_flower.py",
        "both sides in one exchange",
    ),
    "channels/_flower_server.py": (
        "channels/test_flower.py",
        "both sides in one exchange",
    ),
    "channels/_methods.py": (
        "channels/test_exchange.py",
        "a folder keeps the method as JSON",
    ),
    "guard/_asked_before.py": (
        "guard/test_ledger.py",
        "exchanges about the same rows",
    ),
    "asking/_asked_nodes.py": (
        "asking/test_update_forget.py",
        "nodes whose replies were kept",
    ),
    "asking/_decisions.py": (
        "ensembles/test_kept_thresholds.py",
        "beside the thresholds that are kept",
    ),
    "gems/_trusted.py": ("asking/test_trust.py", "both methods judge nodes alike"),
    "ensembles/_distillation_fit.py": (
        "ensembles/test_distillation.py",
        "through the aggregator",
    ),
    "ensembles/_ensemble_fit.py": (
        "ensembles/test_ensemble.py",
        "through the aggregator",
    ),
    "ensembles/_stack_fit.py": ("ensembles/test_odds.py", "a model above log-odds"),
    "ensembles/_students.py": ("ensembles/test_distillation.py", "students are fitted"),
    "ensembles/_votes.py": ("ensembles/test_ensemble.py", "members vote"),
    "parties/_federation.py": (
        "guard/test_summarizing.py",
        "all that sends or has rows",
    ),
    "asking/_joining.py": ("asking/test_channel.py", "a fit over a channel"),
    "asking/_keep_replies.py": (
        "asking/test_update_forget.py",
        "replies that are kept",
    ),
    "asking/_lines.py": (
        "asking/test_channel_protocol.py",
        "replies that do not fit are refused",
    ),
    "parties/_estimators.py": (
        "parties/test_summaries_refused.py",
        "members may be files of summaries",
    ),
    "parties/_pickling.py": (
        "asking/test_workers.py",
        "workers of other processes",
    ),
    "asking/_plans.py": ("asking/test_channel.py", "plans run over channels"),
    "asking/_judged_models.py": (
        "asking/test_evaluating.py",
        "models of nodes are judged",
    ),
    "asking/_asked_metrics.py": (
        "asking/test_evaluating.py",
        "nodes behind a channel are asked",
    ),
    "parties/_record.py": (
        "asking/test_update_forget.py",
        "replies that are looked up again",
    ),
    "asking/_report_doubts.py": (
        "asking/test_report_words.py",
        "reasons for doubt at their bounds",
    ),
    "asking/_report_tables.py": (
        "asking/test_report_words.py",
        "tables of reports in lines and as pages",
    ),
    "asking/_region.py": ("gems/test_regions.py", "one summary of several nodes"),
    "guard/_replying.py": (
        "guard/test_outside.py",
        "nodes reply to a channel",
    ),
    "parties/_rows.py": ("local/test_chunks.py", "rows at once and in chunks"),
    "parties/_ruled.py": (
        "pooled/test_sharing_nodes.py",
        "nodes tell less of few rows",
    ),
    "asking/_sending.py": (
        "guard/test_outside.py",
        "nodes that fail are asked once more",
    ),
    "parties/_simulation.py": (
        "gems/test_logistic.py",
        "fit simulates nodes",
    ),
    "gems/_contributions.py": ("gems/test_inference.py", "models without a node"),
    "gems/_inference_fit.py": ("gems/test_inference.py", "through the aggregator"),
    "gems/_inference_notes.py": ("gems/test_inference.py", "notes of the table"),
    "gems/_fit_warnings.py": ("gems/test_logistic_errors.py", "a fit warns of nodes"),
    "gems/_moment_sums.py": ("gems/test_inference.py", "moments in place of nodes"),
    "gems/_last_layer.py": ("gems/test_mlp.py", "through the aggregator"),
    "gems/_training_rounds.py": ("gems/test_mlp_rounds.py", "through the aggregator"),
    "gems/_layers_fit.py": ("gems/test_mlp.py", "through the aggregator"),
    "gems/_linear_method.py": ("gems/test_logistic.py", "through the aggregator"),
    "gems/_linear_parameters.py": (
        "gems/test_logistic.py",
        "parameters of the aggregator",
    ),
    "gems/_node_scores.py": ("gems/test_logistic_spaces.py", "scores of nodes"),
    "gems/_problem.py": ("gems/test_stage.py", "what a stage asks is made of it"),
    "gems/_public_rows.py": ("gems/test_logistic_public_rows.py", "rows tune"),
    "gems/_sums.py": ("gems/test_regions.py", "a region is a sum of nodes"),
    "disclosure/_sums.py": (
        "local/test_disclosed_chunks.py",
        "leverages of rows that come in chunks",
    ),
    "local/_chunk_rule.py": (
        "local/test_disclosed_chunks.py",
        "what the rule makes of chunks",
    ),
    "local/_told_clusters.py": (
        "local/test_disclosed_chunks.py",
        "clusters that the rule lets chunks tell",
    ),
    "local/_classifiers.py": (
        "ensembles/test_ensemble_weights.py",
        "what classifiers of any kind say",
    ),
    "local/_closed_forms.py": (
        "moments/test_forms.py",
        "a form is what nodes tell of it",
    ),
    "local/_fitting.py": (
        "ensembles/test_given_rows.py",
        "classifiers of any kind are fitted",
    ),
    "local/_lookup.py": ("local/test_model.py", "each model is looked up"),
    "local/_disclosed.py": ("disclosure/test_told.py", "what is told of rows"),
    "local/_disclosed_tables.py": ("disclosure/test_told.py", "what is told of rows"),
    "local/_own_residuals.py": ("disclosure/test_told.py", "gradients of residuals"),
    "local/_fronts.py": ("asking/test_fronts.py", "nodes open fronts"),
    "local/_member.py": ("tasks/test_describe.py", "tasks are asked of members"),
    "local/_model_sums.py": ("tasks/test_evaluate.py", "evaluate replies with them"),
    "local/_samples.py": ("local/test_chunks.py", "samples of chunks are of all rows"),
    "local/_sklearn.py": ("local/test_model.py", "a kind of model"),
    "local/_skorch.py": ("local/test_model.py", "a kind of model"),
    "messages/_summaries.py": (
        "parties/test_summary.py",
        "summaries are made and read",
    ),
    "messages/_tasks.py": ("tasks/test_tasks.py", "the table of all tasks"),
    "messages/_words.py": ("guard/test_inspecting.py", "inspect shows the words"),
    "moments/_equations.py": ("moments/test_forms.py", "of linear classifiers"),
    "moments/_solutions.py": ("moments/test_forms.py", "each form is solved"),
    "moments/_class_sums.py": ("pooled/test_pooled.py", "classifiers of such sums"),
    "messages/_row_counts.py": (
        "parties/test_weights.py",
        "rows that are counted beside weights",
    ),
    "moments/_effective_rows.py": (
        "guard/test_models_judged.py",
        "it protects rows from models that are judged",
    ),
    "networks/_inputs.py": ("ensembles/test_given_rows.py", "members that take them"),
    "networks/_module_state.py": (
        "parties/test_templates.py",
        "summaries hold it",
    ),
    "networks/_nets.py": ("networks/test_torch.py", "read together with modules"),
    "networks/_trace.py": ("networks/test_torch.py", "modules are read by traces"),
    "parties/_noisy.py": (
        "tasks/test_noisy_sums.py",
        "messages that depend on rows by one vector",
    ),
    "guard/_noisy_summaries.py": ("tasks/test_noisy_sums.py", "files with noise"),
    "guard/_given_rows.py": ("guard/test_summarizing.py", "rows or chunks of them"),
    "private/_terms.py": ("tasks/test_noisy_sums.py", "a node derives its request"),
    "private/_noise.py": ("private/test_rows.py", "rows are told with it"),
    "pfnm/_earlier_steps.py": (
        "pfnm/test_pfnm_streams.py",
        "update and node_init go on from earlier steps",
    ),
    "pfnm/_matcher.py": ("pfnm/test_pfnm.py", "networks are matched without rows"),
    "pfnm/_matching_fit.py": ("pfnm/test_pfnm_rows.py", "fits to nodes that have rows"),
    "pfnm/_stream.py": ("pfnm/test_pfnm_streams.py", "update goes on with a stream"),
    "asking/_noise.py": ("pooled/test_noise.py", "through both aggregators"),
    "pooled/_noisy_classifiers.py": ("pooled/test_noise.py", "through the aggregator"),
    "pooled/_classifiers.py": ("pooled/test_pooled.py", "through the aggregator"),
    "pooled/_decisions.py": ("choice/test_judging.py", "decisions are tempered"),
    "pooled/_fitted_trees.py": ("pooled/test_forests.py", "forests of scikit-learn's"),
    "pooled/_method.py": (
        "pooled/test_random_trees.py",
        "a region counts as its nodes",
    ),
    "pooled/_pooled_fit.py": ("pooled/test_pooled.py", "through the aggregator"),
    "pooled/_sent_models.py": (
        "asking/test_evaluating.py",
        "nodes judge models of every form",
    ),
    "pooled/_summarizing.py": ("pooled/test_pooled.py", "regions merge summaries"),
    "pooled/_terms.py": ("guard/test_derived.py", "a node makes its requests"),
    "pooled/_trees_fit.py": ("pooled/test_boosting.py", "through the aggregator"),
    "pooled/_trees_terms.py": ("pooled/test_boosting.py", "terms are agreed on"),
    "pfnm/_terms.py": ("guard/test_derived.py", "a node makes its requests"),
    "pooled/_chosen_classifier.py": (
        "pooled/test_pooled.py",
        "what pooled= stands for",
    ),
    "pooled/_front_messages.py": ("pooled/test_transformer_messages.py", "are sent"),
    "pooled/_random_trees_fit.py": ("pooled/test_random_trees.py", "through the fit"),
    "pooled/_trees_method.py": ("pooled/test_forests.py", "forests grow by it"),
    "pooled/_sums.py": ("pooled/test_pooled.py", "sums of nodes are those of all rows"),
    "spaces/_dual.py": ("spaces/test_intersection.py", "against a convex solver"),
    "spaces/_diagonal.py": ("spaces/test_metric.py", "the identities of all metrics"),
    "spaces/_neuron_metrics.py": (
        "spaces/test_metric.py",
        "the identities of all metrics",
    ),
    "spaces/_neuron_pool.py": ("spaces/test_neuron_merging.py", "what is merged"),
    "trees/_rules.py": ("trees/test_growth.py", "trees grow by their rules"),
    "steps/_at_nodes.py": (
        "pooled/test_transformer_messages.py",
        "what nodes tell in messages",
    ),
    "steps/_auto.py": ("steps/test_columns_of.py", "its columns are found by kind"),
    "steps/_branches.py": ("pooled/test_transformer.py", "against scikit-learn's"),
    "steps/_documents.py": ("steps/test_document_front.py", "with their front"),
    "steps/_fitting.py": ("pooled/test_transformer.py", "against scikit-learn's steps"),
    "steps/_front.py": ("pooled/test_transformer.py", "against scikit-learn's steps"),
    "steps/_kind.py": ("steps/test_kinds.py", "what each kind declares"),
    "steps/_sizes.py": ("local/test_costs.py", "costs go by sizes"),
    "steps/_statistics.py": ("pooled/test_transformer.py", "what steps are made of"),
    "tasks/_classifier_fields.py": ("tasks/test_moments.py", "a part of the reply"),
    "tasks/_column_fields.py": ("pooled/test_transformer_messages.py", "they are told"),
    "tasks/_forests.py": ("tasks/test_grow.py", "trees that grow come in requests"),
    "tasks/_judged_sums.py": ("tasks/test_evaluate.py", "a part of the reply"),
    "tasks/_members_of_halves.py": ("tasks/test_halves.py", "they answer for halves"),
    "tasks/_moments_fields.py": ("tasks/test_moments.py", "request and reply"),
    "tasks/_space_fields.py": ("tasks/test_space.py", "request and reply"),
    "tasks/_sums_beside_others.py": ("tasks/test_halves.py", "halves for many methods"),
    "tasks/_surveyed_columns.py": ("tasks/test_survey.py", "a part of the reply"),
    "tasks/_front.py": ("pooled/test_transformer_messages.py", "columns are told"),
    "tasks/_join.py": ("parties/test_summary.py", "summaries are made and read"),
    "tasks/_rows.py": ("tasks/test_evaluate.py", "rows of some labels are judged"),
    "tasks/_train.py": ("averaging/test_co_learning.py", "nodes train in rounds"),
    "asking/_penalised.py": (
        "asking/test_tuned_linear.py",
        "linear models are tuned by it",
    ),
    "steps/_trees.py": (
        "pooled/test_transformer_messages.py",
        "trees are sent in messages",
    ),
}


def python_files(folder: Path) -> list[Path]:
    """All files of Python in a folder and in those within."""
    return sorted(folder.rglob("*.py"))


def modules() -> list[str]:
    """Modules of the package as room and file, as "moments/_rows.py"."""
    return [
        path.relative_to(PACKAGE).as_posix()
        for path in python_files(PACKAGE)
        if path.name.startswith("_") and not path.name.startswith("__")
    ]


def own_test_file(module: str) -> Path:
    """Where the tests of a module lie if it has a file of its own."""
    room, _, name = module.partition("/")
    return TESTS / room.removeprefix("_") / f"test{name}"


@pytest.mark.parametrize("module", modules())
def test_every_module_has_its_test_file_or_says_which_one_it_is(module):
    has_own = own_test_file(module).is_file()
    own_name = own_test_file(module).relative_to(TESTS)
    assert has_own or module in TESTED_ELSEWHERE, f"tests/{own_name} is missing"
    assert not (has_own and module in TESTED_ELSEWHERE), "its entry is stale"


@pytest.mark.parametrize("module", TESTED_ELSEWHERE)
def test_modules_that_are_tested_elsewhere_are_so(module):
    name, reason = TESTED_ELSEWHERE[module]
    assert module in modules(), "there is no such module"
    assert "\ndef test_" in (TESTS / name).read_text(encoding="utf-8")
    assert reason


def test_folders_of_tests_are_rooms():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    folders = {path.parent.name for path in TESTS.glob("*/*.py")}
    assert folders - NOT_ROOMS <= {room.removeprefix("_") for room in rooms}


def test_what_test_files_share_is_in_one_place():
    others = {
        path.relative_to(TESTS).as_posix()
        for path in python_files(TESTS)
        if path.name != "conftest.py" and not path.name.startswith("test_")
    }
    outside = {name for name in others if not name.startswith(("golden/", "helpers/"))}
    assert outside == PROGRAMS


def test_test_files_do_not_import_each_other():
    importing = [
        path.relative_to(TESTS).as_posix()
        for path in python_files(TESTS)
        if re.search(
            r"(?m)^\s*(from|import) (\w+[.])*test_", path.read_text(encoding="utf-8")
        )
    ]
    assert importing == []


def test_no_file_of_tests_is_long():
    lengths = {
        path.relative_to(TESTS).as_posix(): path.read_bytes().count(b"\n")
        for path in python_files(TESTS)
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}
