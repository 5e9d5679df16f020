"""Programs whose runs are kept whole: with all their first calls in a later process nothing is recorded."""

PROGRAM = """
w = fg.arange(3.0, requires_grad=True)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
settings = {"scale": 2.0, "ways": [fg.tanh, fg.exp]}
def helper(x, k=3): return x * k + settings["scale"]
@jit
def f(x):
    y = helper(x)
    for way in settings["ways"]: y = way(y) * w
    if x.sum() > -2: y = y + 1
    return net(y), [y.sum(), {"a": (x, w, 3, "text")}], len(settings)
calls = [(fg.tensor(x, requires_grad=True),) for x in ([0.1, -1.0, 0.2], [-3.0, -1.0, -9.0])]
"""
OTHERS = {
    "derived within": """
def g(x, w): return (fg.tanh(x) * w).sum()
f = jit(fg.value_and_grad(g, (0, 1)))
calls = [(fg.arange(3.0), fg.ones(3))] * 2
""",
    "turned": """
@jit
def f(x):
    products = fg.stack([x.t() @ x, x.transpose(0, 1) @ x])
    return products.unsqueeze(1)[:, 0, 1:].squeeze(1)
calls = [(fg.arange(6.0).reshape(3, 2),)] * 2
""",
    "convolved": """
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2))
@jit
def f(x): return nn.functional.cross_entropy(net(x), fg.tensor([0, 1]))
calls = [(fg.arange(72.0).reshape(2, 1, 6, 6) / 72,)] * 2
""",
    "recurrent": """
net = nn.GRU(3, 4)
@jit
def f(x):
    found = net(x)[0].max(0)
    return found.values, fg.topk(found.values, 2).indices
calls = [(fg.arange(30.0).reshape(5, 2, 3) / 30,)] * 2
""",
    "a loop": """
@jit
def f(x):
    h = x
    for i in range(60): h = fg.tanh(h * 0.9 + x) * 1.1
    return h.sum()
calls = [(fg.arange(300000.0) / 1e5,)] * 2
""",
    "a step": """
net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.BatchNorm1d(4), nn.Linear(4, 1))
opt = fg.optim.SGD(net.parameters(), lr=0.1)
@jit
def f(x):
    opt.zero_grad()
    loss = (net(x) ** 2).mean()
    loss.backward()
    opt.step()
    return loss.detach()
calls = [(fg.arange(6.0).reshape(2, 3),)] * 3
""",
    "a step before a schedule's": """
import warnings
w = fg.ones(3, requires_grad=True)
opt = fg.optim.SGD([w], lr=0.1)
schedule = fg.optim.lr_scheduler.StepLR(opt, 1)
@jit
def f(x):
    opt.zero_grad()
    (w * x).sum().backward()
    opt.step()
    return w.detach().clone()
calls = [(fg.arange(3.0),)] * 3
def left():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()
    return schedule.last_epoch
""",
}
