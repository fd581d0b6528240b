"""All that a server can ask a node: a file for each task.

A file, as that of `COUNTS` or `SCORE`, has the classes of the request and of the reply.
Their annotations are the fields, with the words that say what leaves; their methods are
the rules that fields keep. Beside these are the cost and the node's answer. All tasks
are put into the table ``skgems.messages.TASKS``, where other rooms look them up. A new
task is one file and a line here.

>>> from skgems.tasks import COUNTS
>>> sorted(COUNTS.reply.fields)
['counts', 'labels', 'min_rows', 'rule']
>>> COUNTS.asks
'the number of rows of each class that the node may train on'
"""

from ..messages import register
from ._boost import BOOST, BoostReply, unpacked_sums
from ._class_sums import CLASS_SUMS, ClassSumsReply
from ._counts import COUNTS
from ._describe import DESCRIBE
from ._evaluate import EVALUATE, EvaluateReply, JudgedSums
from ._front import FRONT
from ._grow import GROW, GrowReply
from ._grow_halves import GROW_HALVES, GrowHalvesReply
from ._halves import (
    HALF_NAMES,
    HALVES,
)
from ._inference import INFERENCE, InferenceReply
from ._join import JOIN, JoinReply
from ._judge import (
    JUDGE,
    JudgeReply,
    losses_of,
    losses_of_rows,
    most_judging,
    most_loss,
)
from ._leaf_counts import (
    DEEPEST,
    LEAF_COUNTS,
    LeafCountsReply,
    unpacked_leaf_counts,
)
from ._metrics import METRICS, MetricsReply
from ._moments import MOMENTS, MomentsReply
from ._neurons import NEURONS, NeuronsReply
from ._noisy_sums import NOISY_SUMS, NoisySumsReply
from ._retrain import RETRAIN, RetrainReply
from ._score import SCORE, ScoreReply
from ._shared import DisclosedReply
from ._size import SIZE
from ._space import SPACE
from ._survey import SURVEY, SurveyReply
from ._train import TRAIN, TrainReply

# In the order of an exchange, which is that of an agreement.
for _task in (
    SURVEY,
    FRONT,
    DESCRIBE,
    COUNTS,
    JOIN,
    HALVES,
    GROW_HALVES,
    JUDGE,
    MOMENTS,
    CLASS_SUMS,
    NOISY_SUMS,
    LEAF_COUNTS,
    SIZE,
    SPACE,
    NEURONS,
    EVALUATE,
    SCORE,
    METRICS,
    INFERENCE,
    TRAIN,
    RETRAIN,
    GROW,
    BOOST,
):
    register(_task)
