"""The playground: a page that trains a model of the user in the browser."""
