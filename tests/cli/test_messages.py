"""What the command says about bad input: one line that names the flag, in words that make sense on the command."""

import re

import pytest

from tests.support.command import invoke, run

DATA = "synthetic:mslr:queries=40"
TRAIN = f"train {DATA} --out new"
CLICKS = f"{TRAIN} --clicks clicks"
AFFINE = f"{CLICKS} --estimator affine"
LOG = f"{TRAIN} --log log"
POLICY = f"{CLICKS} --logger ranker --policy"
SIMULATE = f"simulate {DATA} --logger ranker --out new"
FEW = f"{SIMULATE} --n-clicks 5"
ESTIMATE = f"estimate ranker {DATA} --clicks clicks"
SELECT = f"select {DATA} --clicks clicks"
EVALUATE = f"evaluate ranker {DATA}"
PLAN = f"plan {DATA} --logger ranker --examination inverse-rank --page 5"
REPRODUCE = f"reproduce --data {DATA} --quick --out new"

BAD = {
    # train: the estimator
    f"{CLICKS} --clip 0": "--clip 0: expected none, auto or a number above 0",
    f"{CLICKS} --clip low": "--clip low: expected none, auto or a number above 0",
    f"{CLICKS} --clip auto --validation none": "--clip auto: requires clicks of a validation part to choose by",
    f"{CLICKS} --estimator auto --clip auto": "--clip auto: expected none or a number above 0 with auto",
    f"{CLICKS} --estimator best": "--estimator best: expected one of 'policy-aware', 'affine'",
    f"{CLICKS} --estimator full-information": "requires labels; expected no --clicks or --log",
    f"{TRAIN} --estimator naive": "--estimator naive: requires --clicks or --log",
    f"{TRAIN} --clip 5": "--clip 5: full-information has no clip, a hyperparameter of policy-aware, affine",
    AFFINE: "--estimator affine: requires --alpha and --beta, such as 0.9,0.4 and 0.1,0.05",
    f"{AFFINE} --alpha 0.9,-2 --beta 0.1,0.1": "--alpha: -2 at rank 2; expected at least 0",
    f"{CLICKS} --estimator naive --alpha 0.9 --beta 0.1": "--alpha, --beta: naive does not correct for trust bias",
    f"{CLICKS} --estimator rerank": "requires displayed pages; expected --log, or --clicks counted with --displays",
    f"{CLICKS} --tau 0.1": "--tau 0.1: policy-aware has no tau, a hyperparameter of auto, doubly-robust; leave",
    f"{CLICKS} --estimator doubly-robust --tau 2": "--tau 2.0: expected a number from 0 to 1",
    f"{CLICKS} --estimator shrinkage --strength -1": "--strength -1.0: expected a number of at least 0",
    f"{CLICKS} --estimator-param foo=1": "--estimator-param foo=1: policy-aware has no foo; expected clip",
    f"{CLICKS} --estimator-param clip": "--estimator-param clip: expected NAME=VALUE, each name once",
    f"{CLICKS} --estimator-param clip=0": "--estimator-param clip=0: expected none, auto or a number above 0",
    f"{CLICKS} --estimator-param clip=low": "--estimator-param clip=low: expected none, auto or a number above 0",
    f"{AFFINE} --alpha 0.9 --beta 0.1 --clip auto": "--clip auto: expected none or a number above 0 with affine",
    f"{AFFINE} --alpha 0.9,a --beta 0.1,0.1": "--alpha a: expected a number",
    f"{CLICKS} --clip 5 --estimator-param clip=6": "--estimator-param clip, --clip: expected one of the two",
    f"{CLICKS} --folds 5": "--folds: policy-aware has no relevance model; expected --estimator auto",
    f"{CLICKS} --estimator auto --folds 1": "--folds 1: expected a whole number of at least 2",
    f"{CLICKS} --estimator auto --relevance-model forest": "--relevance-model forest: expected one of 'ridge'",
    f"{TRAIN} --gain linear": "--gain linear: expected binary or exponential",
    f"{TRAIN} --relevance-threshold x": "--relevance-threshold: expected a number; see counterrank train --help",
    f"{TRAIN} --relevance-threshold 9": "--relevance-threshold 9: no document is relevant, the largest label is 4",
    # train: the ranker
    f"{TRAIN} --k 0": "--k 0: expected a whole number of at least 1",
    f"{TRAIN} --k five": "--k: expected a whole number; see counterrank train --help",
    f"{TRAIN} --loss arp-hinge --k 5": "arp-hinge has no cutoff",
    f"{TRAIN} --loss listnet": "--loss listnet: expected one of arp-hinge",
    f"{TRAIN} --model forest": "--model forest: expected one of 'linear', 'mlp', 'lambdamart'",
    f"{TRAIN} --param hidden=3": "--param: hidden; expected only device for a linear model",
    f"{TRAIN} --metric ndcg@5": "--metric ndcg@5: needs to know all relevant documents",
    f"{TRAIN} --learning-rate 0": "--learning-rate 0: expected auto or a number above 0",
    f"{TRAIN} --max-epochs 0": "--max-epochs 0: expected a whole number of at least 1",
    f"{TRAIN} --normalize z": "--normalize z: expected one of 'query', 'standard', 'none'",
    f"{TRAIN} --share 0": "--share 0.0: expected a number above 0 and up to 1",
    f"{CLICKS} --share 0.5": "--share: is for labels, since clicks belong to all queries",
    f"{TRAIN} --threads 0": "--threads 0: expected a whole number of at least 1",
    f"{TRAIN} --seed -1": "--seed -1: expected a whole number of at least 0",
    f"{TRAIN} --step 3": "No such option",
    # data, clicks and logs
    "train": "Missing argument DATA; see counterrank train --help",
    f"train {DATA}": "Missing option '--out'",
    "train nowhere --out new": "nowhere: no such ranking data",
    f"train {DATA} --out taken": "taken: exists and is not a folder with a model.json",
    "train synthetic:mslr:size=3 --out new": "'size=3'; expected settings as in synthetic:mslr:queries=2000,seed=1",
    "train synthetic:mslr:queries=² --out new": "'queries=²'; expected settings as in",
    "train synthetic:web --out new": "synthetic:web: unknown; expected one of synthetic:mslr, synthetic:yahoo",
    "train synthetic:mslr:queries=0 --out new": "synthetic:mslr:queries=0: too few for three parts; expected at",
    f"train {DATA} --out ranker": "ranker: exists; choose another name, or --force to replace it",
    f"train {DATA} --clicks clicks --out clicks --force": "clicks: is an input of this command",
    f"{TRAIN} --policy replace-last:k=5": "--policy, --logger, --examination, --users: describe clicks; require",
    f"{CLICKS} --log log": "--clicks, --log: expected one of the two",
    f"{TRAIN} --clicks log": "log: no click counts in it; expected a folder written by counterrank simulate",
    f"{TRAIN} --log clicks": "clicks: click counts and not a log; expected --clicks clicks",
    f"{TRAIN} --clicks nowhere": "counterrank: --clicks nowhere: no such click counts",
    f"{TRAIN} --log nowhere": "counterrank: --log nowhere: no such click log",
    f"{CLICKS} --only-policy v9": "--only-policy v9: clicks has no policy names; leave it out",
    f"{LOG} --align": "--align: maps click counts onto data that has grown; expected --clicks with it",
    f"{CLICKS} --hold-out-sessions 0.2": "--hold-out-sessions: requires --log; click counts do not know",
    f"{CLICKS} --safety 0.9": "--safety: requires --production, the ranker in use",
    f"{CLICKS} --evidence asymptotic": "--evidence: requires --production",
    f"{LOG} --map rank": "--map rank: 'rank'; expected each column once, such as rank=position",
    f"{LOG} --map rank=place": "no column 'place'; the log has 'session_id'",
    f"{LOG} --rank-base 2": "--rank-base 2: expected 0 or 1, the number of the first rank",
    f"{LOG} --format xml": "--format xml: expected one of 'parquet', 'csv', 'jsonl', 'ubi', 'metarank'",
    f"{LOG} --memory lots": "--memory lots: not an amount of memory; expected such as 500MB or 4GB",
    f"{LOG} --click-actions ,": "--click-actions ',': expected names, such as click,click_through",
    # policies and examination
    f"{CLICKS} --policy replace-last:k=5": "--policy, --logger: expected both, or none for logged propensities",
    f"{POLICY} best:k=5": "--policy best:k=5: unknown; expected one of deterministic, replace-last",
    f"{POLICY} replace-last:k=0": "--policy replace-last:k=0: k=0: expected a whole number of at least 1",
    f"{POLICY} epsilon-greedy:k=5,epsilon=2": "epsilon=2.0: expected a number from 0 to 1",
    f"{CLICKS} --policy replace-last:k=5 --logger feature:999": "counterrank: --logger feature:999: no such feature",
    f"{CLICKS} --policy replace-last:k=5 --logger nowhere": "counterrank: --logger nowhere: no such ranker or scores",
    f"{POLICY} replace-last": "without k shows all candidates, but pages have 5: expected e.g. replace-last:k=5",
    f"{CLICKS} --policy estimated:smoothing=-1": "--policy estimated:smoothing=-1: smoothing=-1.0: expected",
    f"{LOG} --examination inverse-rank --policy fitted-plackett-luce:k=0": "--policy fitted-plackett-luce:k=0: k=0: ",
    f"{CLICKS} --examination 1,2": "--examination 1,2: 2 at rank 2; expected probabilities from 0 to 1",
    f"{CLICKS} --examination linear": "--examination linear: unknown; expected inverse-rank:eta=1",
    f"{CLICKS} --examination junk.json": "expected a file written by counterrank inspect --examination-out",
    # simulate, aggregate, inspect
    SIMULATE: "--n-clicks, --n-sessions: expected one of the two, such as --n-clicks 1e6",
    f"{SIMULATE} --n-clicks many": "--n-clicks many: expected a whole number of at least 1, such as 1000000 or 1e6",
    f"{FEW} --as-log": "--as-log: requires --n-sessions",
    f"{FEW} --held-out 0": "--held-out 0.0: expected a number above 0, up to 10, such as 0.15",
    f"{FEW} --trust-bias 2": "--trust-bias 2.0: expected a number from 0 to 1",
    f"{FEW} --relevant 2": "--relevant 2.0: expected probabilities from 0 to 1",
    f"{FEW} --relevant 0 --other 0": "--examination, --relevant: no rank is ever clicked",
    f"{FEW} --click-gain linear": "--click-gain linear: expected one of 'binary', 'graded'",
    "aggregate nowhere --out new": "nowhere: no such click log",
    "inspect clicks --effective-sample-size 0": "--effective-sample-size 0: expected a whole number of at least 1",
    "inspect clicks --out page.pdf": "page.pdf: unknown kind of file; expected one that ends in .html",
    "inspect log --policy replace-last:k=5 --logger ranker": "require the candidates; expected --data too",
    # commands over rankers
    f"evaluate nowhere {DATA}": "nowhere: no such ranker",
    f"evaluate taken {DATA}": "taken: no model.json in it; expected a folder written by counterrank train",
    f"{EVALUATE} --metrics auc": "--metrics auc: unknown; expected one of arp, dcg, dcg@k",
    f"{EVALUATE} --metrics dcg@0": "--metrics dcg@0: expected a whole number of at least 1 after '@'",
    f"{EVALUATE} --ks ²": "--ks ²: expected whole numbers",
    f"{EVALUATE} --ks 0": "--ks 0: expected whole numbers of at least 1, such as 1,3,5,10",
    f"{EVALUATE} --ties luck": "--ties luck: expected one of 'average', 'order'",
    f"{EVALUATE} --part dev": "--part dev: expected one of train, validation, test",
    "evaluate ranker synthetic:yahoo:queries=20": "DATA: 700 features; the ranker was trained on 136",
    f"rank ranker {DATA} --out taken": "taken: is a folder, expected a file to write",
    f"rank ranker {DATA} --out new --depth 0": "--depth 0: expected a whole number of at least 1",
    "explain ranker --top 0": "--top 0: expected a whole number of at least 1",
    "explain ranker --features junk.json": "junk.json: not JSON",
    "export ranker --to tensorrt --out new": "--to tensorrt: expected one of 'onnx', 'es-ltr'",
    "export ranker --to lightgbm --out new": "RANKER: lightgbm takes lambdamart models, not linear",
    # estimate and select
    f"estimate ranker {DATA}": "--clicks, --log: expected one of the two",
    f"{ESTIMATE} --population all": "--population all: expected one of 'queries', 'these-queries'",
    f"{ESTIMATE} --confidence 95": "--confidence 95.0: expected a number between 0 and 1, such as 0.95",
    f"{ESTIMATE} --noise 0.1": "--noise 0.1: expected 2 numbers separated by a comma",
    f"{ESTIMATE} --noise 1,0.1": "--noise 1.0,0.1: expected a pair",
    f"{ESTIMATE} --against nowhere": "counterrank: --against nowhere: no such ranker or scores",
    f"{ESTIMATE} --gate": "--gate, --margin: require --against, another ranker",
    SELECT: "RANKERS, --losses: nothing to choose from; expected RANKERS, or --losses",
    f"select ranker {DATA} --clicks clicks": "DATA: ranker is a ranker; expected DATA first, then RANKERS",
    f"{SELECT} --losses listnet": "--losses listnet: expected one of arp-hinge",
    f"{SELECT} --losses dcg-hinge --k 0": "--k 0: expected a whole number of at least 1",
    f"{SELECT} --losses dcg-hinge --part train": "--part train: the losses are trained on it",
    f"{SELECT} --losses dcg-hinge --estimator best": "--estimator best: expected one of 'policy-aware'",
    f"{SELECT} --losses dcg-hinge --estimator affine": "--estimator affine: requires --alpha and --beta, which",
    f"{SELECT} --losses dcg-hinge --estimator-param tau=1": "--estimator-param tau=1: policy-aware has no tau,",
    # plan, reproduce, report, demo
    f"{PLAN} --n-sessions 0": "--n-sessions 0: expected a whole number of at least 1",
    f"{PLAN} --width 0": "--width 0.0: expected a number above 0",
    f"{PLAN} --metric arp": "--metric arp: has no value per session; expected dcg, dcg@k or precision@k",
    f"plan {DATA} --logger ranker --examination inverse-rank": "--page: required where --policy has no k",
    f"plan {DATA} --logger ranker --examination inverse-rank --policy deterministic": "deterministic: has no k; ",
    f"{REPRODUCE} --preset mine": "--preset mine: no such file; expected one of few-clicks",
    f"{REPRODUCE} --figures 7": "--figures 7: expected some of 1,2,3,4, separated by commas",
    f"{REPRODUCE} --pages 5,3": "--pages 5,3: expected page sizes from 1, each larger than the one before",
    f"{REPRODUCE} --n-sessions 500": "--n-sessions: applies to few-clicks and safety only",
    f"{REPRODUCE} --learning-rate fast": "--learning-rate fast: expected auto or a number above 0",
    f"{REPRODUCE} --clip x": "--clip x: expected grid, none, a number above 0, or schedule:a=-3,b=32",
    f"{REPRODUCE} --jobs 0": "--jobs 0: expected a whole number of at least 1",
    f"{REPRODUCE} --engine spark": "--engine spark: requires --master, such as spark://host:7077 or local[4]",
    "report taken": "taken: no run.json in it; expected a folder written by counterrank reproduce",
    "demo --shape web": "--shape web: expected one of 'mslr', 'yahoo'",
    "demo --queries 5": "--queries 5: expected a whole number of at least 20, to have some in every part",
    "learn": "No such command 'learn'",
}
# Python values and names of arguments, which mean nothing on the command
PYTHON = re.compile(r"\bNone\b|numpy|\.save\b|\b(?:exam|rho|n_queries|n_features|click_model|target|noise|shape)\b[=:]")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a ranker, clicks, a log, and things that are none of these."""
    folder = tmp_path_factory.mktemp("messages")
    quick = ("--loss", "arp-hinge", "--max-epochs", 1, "--learning-rate", 1)
    invoke("train", DATA, *quick, "--out", folder / "ranker")
    fixed = ("simulate", DATA, "--logger", folder / "ranker", "--n-sessions", 300, "--out")
    invoke(*fixed, folder / "clicks")
    invoke(*fixed, folder / "log", "--as-log")
    (folder / "junk.json").write_text("{")
    (folder / "taken").mkdir()
    (folder / "taken" / "notes.txt").write_text("mine")
    return folder


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_named_in_flags(line, place):
    before = sorted(each.name for each in place.iterdir())
    result = run(*line.split(), folder=place)
    assert (result.returncode, result.stdout) == (2, "")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("counterrank: ")
    assert BAD[line] in last
    assert not PYTHON.search(last), last
    assert sorted(each.name for each in place.iterdir()) == before


def test_help_is_that_of_a_command_that_exists(place):
    assert re.search(r"('|\w); see counterrank --help\n$", run("zzz", folder=place).stderr)
    assert re.search(r"(\? S|; s)ee counterrank --help\n$", run("trainn", folder=place).stderr)
