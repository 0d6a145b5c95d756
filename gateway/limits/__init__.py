"""What `gateway.admission` is made of: what a request may come to, whose limits apply, and what is told of them."""
