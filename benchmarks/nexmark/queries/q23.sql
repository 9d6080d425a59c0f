SELECT B.auction, B.bidder, B.price, P.name, A.itemName
FROM bid AS B
INNER JOIN person AS P ON P.id = B.bidder
INNER JOIN auction AS A ON A.seller = B.bidder AND A.`dateTime` <= B.`dateTime`
