"""peft: low-rank adapters of a layered network and of a transformer; saved and loaded."""

import tempfile

import peft
import torch
import transformers

from libraries.case import Case, numbers, training, whole_numbers


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def adapted() -> torch.nn.Module:
    return peft.get_peft_model(Network(), peft.LoraConfig(r=4, target_modules=["first", "second"]))


def network() -> Case:
    model, x, goal = adapted(), numbers(16, 8), numbers(16, 4, seed=1)
    return training(model, lambda: torch.nn.functional.mse_loss(model(x), goal), rate=0.1)


def transformer() -> Case:
    config = transformers.GPT2Config(
        vocab_size=64,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    lora = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    model = peft.get_peft_model(transformers.GPT2LMHeadModel(config), lora)
    ids = whole_numbers(64, 2, 12)
    return training(model, lambda: model(input_ids=ids, labels=ids).loss, rate=0.1)


def saved() -> Case:
    model, x = adapted(), numbers(4, 8)

    def values() -> dict[str, torch.Tensor]:
        torch.nn.init.ones_(model.base_model.model.first.lora_B["default"].weight)
        plain = Network()
        for own, wrapped in ((plain.first, "first"), (plain.second, "second")):
            own.load_state_dict(getattr(model.base_model.model, wrapped).base_layer.state_dict())
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            again = peft.PeftModel.from_pretrained(plain, folder)
            loaded = again(x)
        return {"as it is": model(x), "loaded": loaded, "merged": model.merge_and_unload()(x)}

    return Case(model, values=values)


CASES = {"a network": network, "GPT-2": transformer, "saved and loaded": saved}
