"""Views and what is made of them: shapes, order, slices, joins."""
