"""The hot loops: geometry in, regressor rows and their adjoint out; knows neither names nor files."""
