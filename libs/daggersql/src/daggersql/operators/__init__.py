"""The operators of the dialect: which types they take, what they give, what is wrong with them."""
