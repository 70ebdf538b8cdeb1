// An application that submits a job in a transaction, once by pgx and once by database/sql, and rolls another back.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/forgerun/forgerun/sdk/go"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
)

type invoice struct {
	Invoice int `json:"invoice"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx, url := context.Background(), os.Getenv("DATABASE_URL")
	connection := must(pgx.Connect(ctx, url))
	tx := must(connection.Begin(ctx))
	fmt.Println(must(forgerun.SubmitInPgx(ctx, tx, "invoice.render", invoice{1}, forgerun.Queue("invoices"))))
	must(0, tx.Commit(ctx))
	tx = must(connection.Begin(ctx))
	must(forgerun.SubmitInPgx(ctx, tx, "invoice.lost", invoice{0}))
	must(0, tx.Rollback(ctx))
	db := must(sql.Open("pgx", url))
	plain := must(db.BeginTx(ctx, nil))
	fmt.Println(must(forgerun.SubmitIn(ctx, plain, "invoice.render", invoice{2}, forgerun.Queue("invoices"))))
	must(0, plain.Commit())
}
