"""A model folder as an MLflow model: the folder is its artifact and this file its code, so that nothing is pickled.

pip install mlflow-skinny pandas
python examples/mlflow_model.py model model-mlflow
"""

import sys

import mlflow
import pandas as pd

from homefold import Homefold


class Classifier(mlflow.pyfunc.PythonModel):
    """Answers a data frame with a column `path`, or `image` with bytes."""

    def load_context(self, context) -> None:
        self.model = Homefold.load(context.artifacts["model"])

    def predict(self, context, model_input, params=None) -> pd.DataFrame:
        answers = self.model.predict(model_input)
        return pd.DataFrame(
            {"label": answers.labels, "confidence": answers.confidences, "off_manifold": answers.off_manifold}
        )


mlflow.models.set_model(Classifier())


def main(model: str, out: str) -> None:
    """Write the MLflow model."""
    mlflow.pyfunc.save_model(
        out, python_model=__file__, artifacts={"model": model}, pip_requirements=["homefold[pandas]"]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
