"""An application that submits a job in a transaction, once by psycopg and once by SQLAlchemy, and rolls another back."""

import os

import psycopg
from forgerun import submit_in
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

url = os.environ["DATABASE_URL"]
with psycopg.connect(url) as connection:
    print(submit_in(connection, "invoice.render", {"invoice": 1}, queue="invoices"))
with psycopg.connect(url) as connection:
    submit_in(connection, "invoice.lost", {"invoice": 0})
    connection.rollback()
engine = create_engine(url.replace("postgres://", "postgresql+psycopg://"))
with Session(engine) as session, session.begin():
    print(submit_in(session, "invoice.render", {"invoice": 2}, queue="invoices"))
