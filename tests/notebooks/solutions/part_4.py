"""Part 4: classes and digits."""

from math import sqrt


def softmax(logits):
    """Without the largest logit, no power is above 1, and their sum is at least 1: so it can always be divided by."""
    largest = max(logit.data for logit in logits)
    powers = [(logit - largest).exp() for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]


def cross_entropy(logits, target):
    """The logarithm of a quotient is a difference, so the probability itself, which may round to 0, is never needed."""
    largest = max(logit.data for logit in logits)
    return sum((logit - largest).exp() for logit in logits).log() - (logits[target] - largest)


def spread(inputs):
    """Of the squares of the inputs, relu has made half 0. The sum of the others has to be as large as all of them."""
    return sqrt(2 / inputs)


def penalty(weights, strength):
    """Its gradient with respect to a weight w is 2 * strength * w: a step takes away a fixed share of each weight."""
    return strength * sum(w**2 for w in weights)
