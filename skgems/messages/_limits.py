"""How much of anything a message may hold or ask for; what is honest is far below."""

# Bytes of a whole file, of a key in PEM form, and of an agreement.
MOST_BYTES, MOST_KEY, MOST_AGREEMENT = 2**32, 2**16, 2**22
# Of the header in JSON, which takes some thirty times its size once it is read.
MOST_HEADER = 2**22
MOST_DIMENSIONS = 4
# Tables and lists within each other, and names that stand for places within them.
MOST_DEPTH = 32

# Rows are counted in floats.
MOST_ROWS = 2**53
# Characters of labels, which numpy makes as long as the longest; of a node's name.
MOST_CHARACTERS, MOST_NAME = 2**26, 1000
# Of classes that moments are of: those of 1,000 take minutes to be made a model of.
MOST_CLASSES = 1000
# Numbers of matrices that are made of fewer numbers than that: 512 MB.
MOST_NUMBERS = 2**26

MOST_DIRECTIONS, MOST_EPOCHS, MOST_CLUSTERS, MOST_OTHERS = 10**5, 10**5, 10**6, 10**5
# Models and factors in one message: a step tries five models at most, and candidates
# are seven; a search for a factor has grids of 17. More show single rows.
MOST_MODELS, MOST_FACTORS = 7, 32
# Candidates that are judged by halves of rows; `combine` has nine at most.
MOST_JUDGED = 16
# Characters of a reason why a node sends no sums, which has names of columns.
MOST_REASON = 2000
# How often an agreement may allow a task.
MOST_TIMES = 10**6
