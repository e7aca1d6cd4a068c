"""The exercises of notebooks/04b_clients."""

import math

import torch

from dpnotes.core import FRESH, Relation
from dpnotes.exercises.releases import Release
from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.drift_escape.reference import distributed_adaptive_dp_spider
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.random.streams import Streams


@exercise
def round_of_clients(function):
    """Write lines 4 to 8 and 16 of Algorithm 3: a fresh round. `terms` has a tensor for each client, the gradients of
    its batch, `(b, d)`; `noise` has a draw of $N(0, I_d)$ for each client. Return the messages of the clients, `(m,
    d)`, and their mean, which the server uses, `(d,)`. `clipped(rows, G)` is at hand; the noise is `multiplier` times
    the sensitivity of a client's mean.

    Hints:
      A client's mean is that of its clipped terms. What is its sensitivity, if one example is replaced?

      Each client adds its own noise to its own mean. Stack the messages; the server takes their mean.
    """
    normal = Streams.of("exercise", ["one"]).normal("numbers", 0, 3 * 20 * 2 + 3 * 2)[0]
    terms, noise, G, multiplier = 2 * normal[:120].view(3, 20, 2), normal[120:].view(3, 2), 1.5, 4.0
    gradients = [lambda x, z, j=j: terms[j][z.start : z.stop] for j in range(3)]
    start, drawn = [(torch.zeros(2), None)], lambda t, j: noise[j]
    sizes = {"n": [20] * 3, "b1": 20, "b2": 5, "kappa": 1.0, "G": G, "M": 1.0, "multiplier": multiplier, "eta": 0.1}
    (right,) = distributed_adaptive_dp_spider(start, gradients, **sizes, noise=drawn)

    def asked(draws):
        sent, followed = function([*terms], G, multiplier, [*draws])
        return torch.stack([*sent]), followed

    try:
        sent, followed = asked(noise)
    except (TypeError, ValueError):
        return "it should return two things: what was sent, (3, 2), and what the server follows, (2,)."
    exact, _ = asked(torch.zeros_like(noise))
    if torch.equal(sent, exact):
        return "the server sees clients' means without any noise: noise that is added later makes it a trusted server."
    scale = multiplier * 2 * G / 20
    if torch.allclose(sent - exact, (sent - exact)[:1].expand(3, -1)):
        return "all clients add the same draw: it does not average out, and who knows one knows all."
    scales = {
        "an example that is replaced moves a mean farther than one that is left out.": 0.5,
        "each client's noise is a third of what it needs: against the server it is alone.": 1 / 3,
    }
    slips = {"no example was clipped: the sensitivity is not bounded.": terms.mean(dim=1)}
    if mistake := Release(right.private_mean, scale, slips, scales).mistake(lambda draws: asked(draws)[0], noise):
        return mistake
    correct = getattr(followed, "shape", None) == right.g.shape and torch.allclose(followed, right.g)
    return "" if correct else "the messages are right; the server should follow their mean, and add nothing."


@exercise
def coalition(function):
    """A client's own noise is `multiplier` times its sensitivity. Write the function that gives the noise of the *mean*
    over *its* sensitivity, against `others` of the other clients, who share their knowledge of their own noise.

    Hints:
      One example changes the mean of m messages by 1/m of the change of its client's message.

      They do not know the noise of m - others clients. Variances of independent noise add up.
    """
    epsilon = lambda noise: account([Event(noise, Relation.REPLACE_ONE, FRESH, 1)], 1e-6).epsilon
    draws = Streams.of("coalition", ["one"]).normal("noise", 0, 8 * 200_000)[0].view(8, -1)
    for clients, others in ((8, 0), (8, 1), (8, 5), (8, 7), (3, 1)):
        multiplier = 5.0
        given = float(function(multiplier, clients, others))
        unknown = multiplier * draws[others:clients].sum(dim=0) / clients  # of the mean's noise, a message moves by 1
        right = float(unknown.std()) * clients
        if not math.isclose(given, right, rel_tol=0.02):
            return (
                f"with m = {clients} and {others} that look it gives {given:.4g}, for which ε = {epsilon(given):.3f}: "
                f"the true ε is {'larger' if given > right else 'smaller'}."
            )
        if near(given)(float(function(2 * multiplier, clients, others)) / 2):
            return "twice the noise of each client should be twice the noise of the mean."
    return ""
