"""Texts of trees: those of our own training pass, and no text that passes makes LightGBM die or hang."""

import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ModelError
from counterrank.models.trees import check_tree_text
from tests.support.lightgbm_trees import text_of
from tests.support.mutate_trees import fix_sizes
from tests.support.paths import ROOT

pytest.importorskip("lightgbm", reason="lightgbm is not installed (pip install 'counterrank[lightgbm]')")


def made(n_features, n_queries=30, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(5, 20, size=n_queries))))
    features = rng.normal(size=(offsets[-1], n_features))
    half = n_features // 2
    features[:, half:] = rng.integers(0, 40, (offsets[-1], n_features - half))
    worth = features[:, 0] / 2 + features[:, -1] % 3 - features[:, half] % 3 + rng.normal(size=offsets[-1])
    return cr.RankingData(features, offsets, np.digitize(worth, [-1.0, 0.0, 1.0, 2.0]))


CATEGORICAL = {"categorical_feature": [2, 3], "min_data_per_group": 1, "cat_smooth": 0.0, "max_cat_to_onehot": 1}
SETTINGS = {
    "two leaves": (4, {"num_leaves": 2}),
    "many leaves": (4, {"num_leaves": 64, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}),
    "linear": (4, {"num_leaves": 5, "linear_tree": True}),
    "categorical": (4, {"num_leaves": 15, "min_data_in_leaf": 5, **CATEGORICAL}),
    "one-hot": (4, {"num_leaves": 7, **CATEGORICAL, "max_cat_to_onehot": 100, "min_data_in_leaf": 2}),
    "bagging": (4, {"num_leaves": 7, "bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5}),
    "few bins": (4, {"num_leaves": 7, "max_bin": 3}),
    "zeros missing": (4, {"num_leaves": 7, "zero_as_missing": True}),
    "stops early": (4, {"num_leaves": 31, "min_gain_to_split": 0.5}),
    "monotone": (4, {"num_leaves": 7, "monotone_constraints": [1, 0, 0, -1]}),
    "interactions": (4, {"num_leaves": 7, "interaction_constraints": [[0, 1], [2, 3]]}),
    "goss": (4, {"num_leaves": 7, "boosting": "goss"}),
    "one feature": (1, {"num_leaves": 7}),
    "300 features": (300, {"num_leaves": 7}),
}


def fitted(n_features, params):
    data = made(n_features)
    ranker = cr.Ranker("lambdarank", k=5, model="lambdamart", max_epochs=4, params=params, threads=1)
    return ranker.fit(data, cr.estimators.full_information(data)), data


@pytest.fixture(scope="module")
def rankers():
    return {name: fitted(*setting) for name, setting in SETTINGS.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_training_writes_passes(rankers, name, tmp_path):
    ranker, data = rankers[name]
    ranker.save(tmp_path / "ranker")
    assert cr.Ranker.load(tmp_path / "ranker").predict(data).tolist() == ranker.predict(data).tolist()


def test_the_settings_give_trees_of_their_kinds(rankers):
    texts = {name: ranker.model_.text for name, (ranker, _) in rankers.items()}
    assert "num_leaves=64\n" in texts["many leaves"]
    assert "is_linear=1\n" in texts["linear"]
    assert re.search("leaf_coeff=.*[1-9]", texts["linear"])
    assert re.search("num_cat=[2-9]", texts["categorical"].partition("Tree=1")[0])
    assert "cat_boundaries=0 " in texts["one-hot"]
    assert "monotone_constraints=1 0 0 -1\n" in texts["monotone"]


def plain(trees=((0, 0.5, (1, 0.0, 1.0, 2.0), (1, 1.0, 3.0, 4.0)), (1, 0.5, 1.0, 2.0))):
    """Two trees for two features: splits 0, 1 and 2 over leaves 0 to 3, and one split."""
    return fix_sizes(text_of(trees, 2, more_header="tree_sizes=\n"))


@pytest.mark.parametrize(
    "trees",
    [(1.0,), ((0, 1e300, 1.0, -2.5e-300), 0.0), ((0, -1e300, 1.0, (1, 0.0, (0, 1.0, 1.0, 2.0), 3.0)),)],
    ids=["one leaf", "huge threshold", "deep"],
)
def test_trees_made_by_hand_pass(trees):
    check_tree_text(plain(trees), 2)


def test_one_leaf_without_counts_passes():
    check_tree_text(fix_sizes(re.sub("(leaf_weight|leaf_count)=1", r"\1=", plain((1.0,)))), 2)


def one_linear_leaf():
    lists = "is_linear=1\nleaf_const=1\nnum_features=0\nleaf_features= \nleaf_coeff= "
    return fix_sizes(plain((1.0,)).replace("is_linear=0", lists))


def test_one_linear_leaf_needs_its_counts():
    """LightGBM reads all lists of such a tree, and ends the process where one is short."""
    text = one_linear_leaf()
    check_tree_text(text, 2)
    for name in ("leaf_weight", "leaf_count"):
        with pytest.raises(ModelError, match=f"tree 0: {name} has 0 entries; expected 1"):
            check_tree_text(fix_sizes(text.replace(f"{name}=1", f"{name}=")), 2)


REFUSED = {
    "num_class=1 num_class=2": "num_class is 2; expected 1",
    "iteration=1 iteration=2": "num_tree_per_iteration is 2; expected 1",
    "feature_idx=1 feature_idx=2": r"trees for 3 features \(max_feature_idx \+ 1\); expected 2",
    "version=v4 version=v9": "version is 'v9'; expected v4",
    "label_index=0 objective=binary": "label_index is missing",
    "Column_0 Column_0~x": "feature_names has 3 entries; expected 2",
    "Tree=1 Tree=2": "tree 1 begins with 'Tree=2'; expected Tree=1",
    "num_leaves=4 num_leaves=5": "tree 0: leaf_value has 4 entries; expected 5",
    "num_leaves=4 num_leaves=-4": "tree 0: num_leaves is -4; expected 1 to 131072",
    "num_leaves=4 num_leaves=4.0": "tree 0: num_leaves is 4.0; expected a whole number",
    "num_cat=0 num_cat=1": "tree 0: cat_boundaries is missing",
    "split_gain gain": "tree 0: split_gain is missing",
    "num_cat=0 num_cat=0\nnum_cat=0": "tree 0: num_cat is given twice",
    "num_cat=0 num_cat=0\ncolour=0": "tree 0: a field 'colour' that is not expected here",
    "num_cat=0 num_cat=0\n\n": "tree 0: a line ''; expected name=value",
    "feature=0~1~1 feature=0~2~1": r"tree 0: split_feature\[1\] is 2; expected 0 to 1",
    "threshold=0.5~0.0 threshold=0.5~inf": r"tree 0: threshold\[1\] is inf; expected a finite number",
    "threshold=0.5~0.0 threshold=0.5~1e999": r"tree 0: threshold\[1\] is 1e999; expected a finite number",
    "threshold=0.5~0.0 threshold=0.5~0x1": r"tree 0: threshold\[1\] is 0x1; expected a finite number",
    "threshold=0.5~0.0 threshold=0.5~": r"tree 0: threshold\[1\] is empty",
    "value=1.0~2.0~3.0 value=1.0~nan~3.0": r"tree 0: leaf_value\[1\] is nan; expected a finite number",
    "type=2~2~2 type=2~2": "tree 0: decision_type has 2 entries; expected 3",
    "type=2~2~2 type=2~12~2": r"tree 0: decision_type\[1\] is 12; expected 0 to 11",
    "type=2~2~2 type=2~1~2": "tree 0: decision_type has 1 categorical splits; expected 0, as num_cat says",
    "left_child=1 left_child=3": r"tree 0: left_child\[0\] is 3; expected -4 to 2",
    "left_child=1 left_child=0": r"tree 0: left_child\[0\] is 0; expected a leaf \(< 0\) or a split after 0",
    "left_child=1 left_child=2": "tree 0: split 1 is a child 0 times",
    "left_child=1~-1 left_child=1~-2": "tree 0: leaf 1 is a child 2 times",
    "leaf_count=1~1~1~1 leaf_count=1~1~1~9999999999": r"leaf_count\[3\] is 9999999999; expected 0 to 2147483647",
    "is_linear=0 is_linear=1": "tree 0: leaf_coeff is missing",
    "shrinkage=1 shrinkage=x": "tree 0: shrinkage is x; expected a finite number",
    "end~of~trees end~of": "no line 'end of trees'; the text is cut short",
    "end~of~trees end~of~trees\nmore": "expected feature_importances, parameters and 'end of parameters' after",
    "num_cat=0 num_cat=0\r": "a control character at",
    "num_cat=0 num_cat=é": "letters that are not ASCII",
}


@pytest.mark.parametrize("change", REFUSED)
def test_damage_is_named(change):
    old, new = (part.replace("~", " ") for part in change.split(" "))
    text = plain()
    assert old in text
    with pytest.raises(ModelError, match=REFUSED[change]):
        check_tree_text(fix_sizes(text.replace(old, new, 1)), 2)


def test_sizes_are_those_of_the_trees():
    first, second = re.search(r"tree_sizes=(\d+) (\d+)", plain()).groups()
    with pytest.raises(ModelError, match=f"tree 1 is {second} bytes long; tree_sizes says 7"):
        check_tree_text(plain().replace(f"tree_sizes={first} {second}", f"tree_sizes={first} 7"), 2)
    with pytest.raises(ModelError, match="tree_sizes has 1 entries; expected 2, one for each tree"):
        check_tree_text(plain().replace(f"tree_sizes={first} {second}", f"tree_sizes={first}"), 2)


@pytest.mark.parametrize(
    ("name", "pattern", "new", "message"),
    [
        ("categorical", r"cat_boundaries=0 \d+", "cat_boundaries=0 999", r"cat_boundaries\[1\] is 999; expected 0 to"),
        ("categorical", "cat_boundaries=0", "cat_boundaries=1", "cat_boundaries do not rise from 0 to"),
        ("categorical", "cat_threshold=", "cat_threshold=1 ", r"cat_boundaries do not rise from 0 to \d+, the length"),
        ("categorical", "cat_threshold=", "cat_threshold=-", r"cat_threshold\[0\] is -\d+; expected 0 to 4294967295"),
        ("categorical", r"num_cat=\d+", "num_cat=1", r"decision_type has \d categorical splits; expected 1"),
        ("linear", r"(?s)(Tree=1.*)\nnum_features=\d+", r"\1\nnum_features=3", r"leaf_features has \d+ entries"),
        ("linear", r"leaf_features=( *)\d+", r"leaf_features=\g<1>77", r"leaf_features\[0\] is 77; expected 0 to 3"),
        ("linear", "leaf_const=", "leaf_const=x", r"leaf_const\[0\] is x.*; expected a finite number"),
        (
            "bagging",
            r"\[num_leaves: 7\]",
            "num_leaves: 7",
            r"a line 'num_leaves: 7'; expected \[name: value",
        ),
        (
            "bagging",
            "pandas_categorical:null",
            "pandas_categorical:{}",
            "expected nothing but 'pandas_categorical:null'",
        ),
    ],
)
def test_damage_of_other_kinds_is_named(rankers, name, pattern, new, message):
    text = rankers[name][0].model_.text
    changed = re.sub(pattern, new, text, count=1)
    assert changed != text
    with pytest.raises(ModelError, match=message):
        check_tree_text(fix_sizes(changed), 4)


def test_a_damaged_ranker_with_a_digest_to_match_is_refused(rankers, tmp_path):
    rankers["few bins"][0].save(tmp_path / "ranker")
    file, model = tmp_path / "ranker" / "trees.txt", tmp_path / "ranker" / "model.json"
    content = json.loads(model.read_text())
    for raw, message in [
        (
            re.sub(rb"left_child=-?\d+", b"left_child=0", file.read_bytes(), count=1),
            r"trees\.txt: tree 0: left_child\[0\] is 0",
        ),
        (file.read_bytes().replace(b"left_child", b"left\xff", 1), r"trees\.txt: 'utf-8' codec can't decode"),
    ]:
        file.write_bytes(raw)
        content["content"]["sha256"] = hashlib.sha256(raw).hexdigest()
        model.write_text(json.dumps(content))
        with pytest.raises(ModelError, match=message):
            cr.Ranker.load(tmp_path / "ranker")


@pytest.mark.process
def test_no_text_that_passes_makes_lightgbm_die_or_hang(rankers, tmp_path):
    for number, name in enumerate(["two leaves", "linear", "categorical", "few bins", "one feature"]):
        ranker, data = rankers[name]
        (tmp_path / f"{number}-{data.n_features}.txt").write_text(ranker.model_.text)
    (tmp_path / "8-2.txt").write_text(one_linear_leaf())
    command = [sys.executable, "-m", "tests.support.mutate_trees", str(tmp_path), "1500", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    passed, refused = map(int, done.stdout.split()[-2:])
    assert passed > 100
    assert refused > 500
