"""A character LSTM on names of different lengths: it learns which letter comes next, and invents names.

Run it with `python examples/char_lstm.py`. The names are packed, so that none is padded: each step of
the LSTM has only the names that are that long. Prints the loss as it falls, and names that it made up.
"""

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn.utils.rnn import pack_sequence

NAMES = """
ada adele agnes albert alice alma amelia andrea anna anton arthur astrid august aurora barbara beatrice
benjamin bernard bertha bianca boris bruno camilla carl carla caroline catherine cecilia charles clara
claudia clemens conrad cornelia cyril daniel david diana dora edgar edith edmund edward elena eleonora
elias elisabeth ella elsa emil emilia emma eric erica ernest esther eva felix ferdinand flora florence
frances frank frederic frieda gabriel george gerald gisela gloria gregor greta gustav hanna harald harriet
hector heinrich helena henry herbert herman hilda hugo ida ingrid irene iris isabella jacob jan johanna
john jonas joseph josephine judith julia julian karin karl katharina klara konrad laura lea leo leonard
leonora lilian linda louis louise lucas lucia ludwig luise magdalena marcel margaret maria marian marina
mario marta martin matilda matthew max maximilian melanie michael miriam monica nathan nicholas nina nora
norbert olga oliver oscar otto patricia paul paula peter philip rachel ralph raymond rebecca regina richard
robert roland rosa rosalind rudolf ruth samuel sandra sara sebastian sibylla silvia simon sofia stefan
stella susanna sylvester teresa theodor thomas tobias ursula valentin vera verena victor victoria viola
vincent virginia walter werner wilhelm william yvonne zoe
""".split()
LETTERS = "." + "".join(sorted(set("".join(NAMES))))  # the dot begins and ends each name
EPOCHS = 60


class Speller(nn.Module):
    """Scores of the next letter, after each letter of a name."""

    def __init__(self, size=64):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), 16)
        self.memory = nn.LSTM(16, size)
        self.scores = nn.Linear(size, len(LETTERS))

    def forward(self, names, state=None):
        """names: packed letters; gives scores [sum of lengths, letters] and the LSTM's last state."""
        output, state = self.memory(names._replace(data=self.letters(names.data)), state)
        return self.scores(output.data), state


def encoded(name):
    return fg.tensor([LETTERS.index(letter) for letter in name])


def train(model):
    """The loss of each epoch; all names are one batch."""
    inputs = pack_sequence([encoded("." + name) for name in NAMES], enforce_sorted=False)
    targets = pack_sequence([encoded(name + ".") for name in NAMES], enforce_sorted=False).data
    optimizer = fg.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for epoch in range(EPOCHS):
        scores, _ = model(inputs)
        loss = nn.functional.cross_entropy(scores, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if epoch % 10 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch:3}  loss {losses[-1]:.3f}")
    return losses


def invented(model, warmth=0.8):
    """A name, letter by letter: each is drawn by the scores, and is the next input."""
    name, state = ".", None
    with fg.no_grad():
        while len(name) < 16 and (name == "." or name[-1] != "."):
            scores, state = model(pack_sequence([encoded(name[-1])]), state)
            chances = nn.functional.softmax(scores[0] / warmth, 0)
            name += LETTERS[fg.multinomial(chances, 1).item()]
    return name.strip(".")


def main():
    fg.manual_seed(0)
    model = Speller()
    losses = train(model)
    names = {invented(model) for _ in range(12)}
    print("new names:", ", ".join(sorted(name for name in names if name not in NAMES)))
    return losses, names


if __name__ == "__main__":
    main()
