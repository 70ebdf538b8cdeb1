#!/bin/sh
# An invoice as PDF, from {"customer":"…","amount":"…"} on standard input: a program of your own as a worker.
#
#   forgerun worker exec --queue invoices --result-type application/pdf -- examples/invoice.sh
#   forgerun submit --type invoice --queue invoices --payload '{"customer":"Ada Lovelace","amount":"42.00"}' --wait > invoice.pdf
#
# It needs a shell, sed and awk. Exit code 65 tells ForgeRun that the same input will never do.
set -eu

input=$(cat)

# One text member of a JSON object on one line, safe for a PDF string.
field() {
    printf '%s\n' "$input" | sed -n "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"\([^\"]*\)\".*/\1/p" | tr -d '\\()'
}

customer=$(field customer)
amount=$(field amount)
if [ -z "$customer" ] || [ -z "$amount" ]; then
    echo 'the payload needs "customer" and "amount", both texts' >&2
    exit 65
fi
echo "forgerun: progress 50 drawing the page" >&2

# Every object is a line of the program; awk counts the bytes that the table at the end must name.
LC_ALL=C awk -v customer="$customer" -v amount="$amount" -v job="${FORGERUN_JOB_ID:-none}" 'BEGIN {
    text = "BT /F1 24 Tf 72 760 Td (Invoice) Tj /F1 12 Tf 0 -40 Td (Customer: " customer ") Tj 0 -20 Td (Amount: " amount ") Tj 0 -40 Td (Job " job ") Tj ET"
    object[1] = "<< /Type /Catalog /Pages 2 0 R >>"
    object[2] = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    object[3] = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
    object[4] = "<< /Length " length(text) " >>\nstream\n" text "\nendstream"
    object[5] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    file = "%PDF-1.4\n"
    for (n = 1; n <= 5; n++) {
        at[n] = length(file)
        file = file n " 0 obj\n" object[n] "\nendobj\n"
    }
    table = length(file)
    file = file "xref\n0 6\n0000000000 65535 f \n"
    for (n = 1; n <= 5; n++) file = file sprintf("%010d 00000 n \n", at[n])
    printf "%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", file, table
}'
