"""gpytorch with linear_operator: an exact process, and one of inducing points."""

import gpytorch
import torch

from libraries.case import Case, numbers, training


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.Likelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))


class Inducing(gpytorch.models.ApproximateGP):
    def __init__(self, points: torch.Tensor) -> None:
        found = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, found))
        self.mean = gpytorch.means.ConstantMean()
        self.covariance = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.covariance(x))


def exact() -> Case:
    x = torch.linspace(0, 1, 24)
    y = torch.sin(6 * x) + 0.1 * numbers(24)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, y, likelihood)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    return training(model, lambda: -marginal(model(x), y), rate=0.05)


def predicted() -> Case:
    x = torch.linspace(0, 1, 24)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact(x, torch.sin(6 * x), likelihood).eval()
    likelihood.eval()

    def values() -> dict[str, torch.Tensor]:
        with torch.no_grad():
            found = likelihood(model(torch.linspace(0, 1, 7)))
            return {"mean": found.mean, "variance": found.variance}

    return Case(model, values=values)


def inducing() -> Case:
    x = torch.linspace(0, 1, 24)
    y = torch.sin(6 * x)
    model, likelihood = Inducing(x[::4].clone()), gpytorch.likelihoods.GaussianLikelihood()
    model(x)  # the first call draws what the variational distribution begins with
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=24)
    return training(model, lambda: -bound(model(x), y), rate=0.01)


CASES = {"exact": exact, "predictions": predicted, "inducing points": inducing}
