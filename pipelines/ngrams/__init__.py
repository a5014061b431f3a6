"""n-gram counts and interpolated modified Kneser-Ney models of a corpus of any size, written as an ARPA file.

The model is that of KenLM's `lmplz` (Heafield et al. 2013, Scalable Modified Kneser-Ney Language Model
Estimation): the same words, sentence ends, pruning, discounts, and the same n-grams in the same order.

*What is where.* Words get ids in the order in which they first stand in the corpus (`<unk>` 0, `<s>` 1, `</s>` 2),
so ids depend neither on workers nor on blocks. An n-gram is a key: its ids as bit fields of uint64 columns, the
last word in the highest bits (`keys`). Three words of a vocabulary below 2,097,152 fill one column; more words, or
more of them, take further columns. So keys in order are n-grams in *suffix order*: all that end in the same words
stand together, and a shorter n-gram's key is a longer one's with its lower fields cleared. *Context order* is that of
the key with the last word moved behind the others: all that share a context stand together, and contexts are
themselves in suffix order.

*Ranges.* The space of keys is cut into ranges between bigrams: all n-grams of the same last two words (context
order: whose contexts have the same last two) lie in one range. Bounds are quantiles of the blocks' keys. All orders,
and both sorts of rows, share them, so what belongs together is always one worker's, but for unigrams, of which the
driver holds a few arrays (about 50 bytes a word of the vocabulary).

*The road*, each step a stage that resumes; rows move as sorted runs in files, of which a worker reads its
stretches, a bounded number of rows at a time:

1. read, by block: text to words, to numbers in a window's own vocabulary (`tokens`); new words, with their hashes. A
   window is a few million words of a block, which may be a huge compressed file.
2. The driver merges the vocabularies by hash and gives ids (`vocabulary`).
3. count, by block: keys of the highest order, sorted, counted (`count`): a run in suffix order for each window.
4. adjust, by range: merges runs, so counts are the corpus's; adjusted counts of the lower orders; counts of counts
   (`adjust`). Leaves bigrams as they are, runs of longer ones in context order, and sums for the unigrams.
5. The driver adds up: discounts (`discounts`), unigram probabilities, and what a bigram's context says.
6. weigh, by range: sums over contexts give weights of the lower order, which are the back-offs of the contexts, and
   each n-gram's own share (`weights`): runs in suffix order again.
7. interpolate, by range: from low to high order, p = share + weight * p of the suffix (`interpolate`); lines of the
   ARPA file (`arpa`), which the driver puts end to end.

*What comes out* (`flow.Estimation`): `run` writes the ARPA file and says in an `Outcome` what the model is; with
`longest` and `min_count`, `frequent` then gives n-grams of 2 to `longest` words (none a special one) that stand so
often in the corpus, with their counts and the model's probability of the last word after the others: ids, which
`vocabulary` spells. `clear` removes the work.

    job = Estimation(Lines(), blocks, folder, order=3, longest=3, min_count=5)
    outcome = job.run("model.arpa", execute)
    words = job.vocabulary()
    for batch in job.frequent():  # by_range.FREQUENT_NGRAMS: words list<uint32>, count uint64, probability float32
        spelt = words.take(batch["words"].flatten())
    job.clear()

A worker holds a few million words or rows (600 MB, Beam included), whatever the corpus, and the strings of the
vocabulary; but what cannot be cut, the different n-grams of one pair of last words, it holds at once, in about 150
bytes each: 20 million of them, such as as many different words before the same two, in 3 GB. On disk the work takes
about 60 bytes a word of the corpus at order 3. Numbers are float32, as in `lmplz`, and each is computed from sums of
integers, so no order of adding can change a byte.

What differs from `lmplz` on purpose: `<s>`, `</s>` and `<unk>` in the text are left out and counted, as with its
`--skip_symbols`, and so is `<UNK>`, which `lmplz` takes for a word and all readers for `<unk>` (their neighbours meet;
with `stand_in` another word takes their places, and parts them); a byte order mark is no part of a word; a last line
without an end is a sentence like any other; `</s>` is in the model of an empty corpus, which needs no discounts, and is
never pruned.
"""
